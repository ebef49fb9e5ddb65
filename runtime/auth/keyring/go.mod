module github.com/mcpwire/mcpwire/runtime/auth/keyring

go 1.26.0

replace github.com/mcpwire/mcpwire => ../../..

require (
	github.com/mcpwire/mcpwire v0.0.0-00010101000000-000000000000
	github.com/zalando/go-keyring v0.2.8
)

require (
	github.com/danieljoos/wincred v1.2.3 // indirect
	github.com/godbus/dbus/v5 v5.2.2 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
