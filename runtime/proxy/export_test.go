package proxy

const DefaultConnectTimeout = defaultConnectTimeout

const DefaultInputRequestsPerMinute = defaultInputRequestsPerMinute
