package oauth

var NewMemory = newMemory
