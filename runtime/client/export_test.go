package client

const DefaultInputRequestsPerMinute = defaultInputRequestsPerMinute

const DefaultMaxToolRounds = defaultMaxToolRounds
