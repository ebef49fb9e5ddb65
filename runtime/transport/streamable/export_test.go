package streamable

const DefaultStreamAfter = defaultStreamAfter

const DefaultIdleTimeout = defaultIdleTimeout
