package client

const DefaultInputRequests = defaultInputRequests

const DefaultToolRounds = defaultToolRounds
