package trial

const DefaultAccessTTL = defaultAccessTTL
