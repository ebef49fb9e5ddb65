package session

const DefaultTimeout = defaultTimeout
