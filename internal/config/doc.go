// Package config turns the command line, the environment and a YAML file into one Config,
// and says everything that is wrong with them at once.
//
// Every key is one row of the table in keys.go: its path in the file, its flag, its
// variables, its default, the values it takes, and whether it is a secret. A key or a value
// whose feature isn't there yet is known, and refused as not supported, so that no file
// promises what the relay doesn't do.
//
// A later source wins over an earlier one: default, file, environment, flag. A secret is of
// type Secret, which prints as xxxxx under every verb; messages name the key that a secret
// came from and never quote any part of it.
package config
