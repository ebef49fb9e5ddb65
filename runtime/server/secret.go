package server

import (
	"slices"
	"strings"
)

// words returns the words of a name in lower case, without digits. A word begins after characters
// that are not letters, and where the case changes, as in userPassword, user_password or APIKey.
func words(name string) (list []string) {
	start := -1 // of the current word
	for i := 0; i <= len(name); i++ {
		letter := i < len(name) && isLetter(name[i])
		begins := letter && start >= 0 && isUpper(name[i]) && (!isUpper(name[i-1]) || i+1 < len(name) && isLetter(name[i+1]) && !isUpper(name[i+1]))
		if start >= 0 && (!letter || begins) {
			list = append(list, strings.ToLower(name[start:i]))
			start = -1
		}
		if letter && start < 0 {
			start = i
		}
	}
	return list
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

func isLetter(c byte) bool { return isUpper(c) || 'a' <= c && c <= 'z' }

// isSecretName reports whether the name of a field is that of a secret: a password, a key, a token,
// or the data of a payment card (MCP elicitation, "User Interaction Model"). Words such as password
// count anywhere in the name. Others count only at its end, because the last word of an English
// name is its noun: an accessToken is a secret, a tokenCount is not.
func isSecretName(name string) bool {
	list := words(name)
	for _, word := range list {
		switch word {
		case "password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "credential", "credentials":
			return true
		}
	}
	for len(list) > 1 && slices.Contains([]string{"value", "again", "confirm", "confirmation", "repeat"}, list[len(list)-1]) {
		list = list[:len(list)-1]
	}
	for len(list) > 1 && slices.Contains([]string{"my", "your", "user", "new", "old", "current", "confirm", "repeat"}, list[0]) {
		list = list[1:]
	}
	if len(list) == 1 && list[0] == "pin" { // a mapPin is not a secret
		return true
	}
	for i := range list {
		switch strings.Join(list[i:], "") { // apiKey, api_key and apikey are the same
		case "token", "accesstoken", "authtoken", "apitoken", "refreshtoken", "bearertoken", "sessiontoken", "idtoken", "accesstokens",
			"apikey", "apikeys", "accesskey", "privatekey", "secretkey", "signingkey", "encryptionkey", "sshkey",
			"cardnumber", "cardno", "creditcard", "debitcard", "creditcardnumber", "debitcardnumber", "cvv", "cvc", "securitycode",
			"pincode", "pinnumber", "cardpin", "bankpin", "accountpin", "loginpin", "securitypin", "simpin", "otp", "onetimecode":
			return true
		}
	}
	return false
}
