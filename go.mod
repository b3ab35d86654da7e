module github.com/cdc-relay/cdc-relay

go 1.26.0
