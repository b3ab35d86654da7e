package kafka

import _ "embed"

// POM is the Maven project whose runtime dependencies are the broker.
//
//go:embed pom.xml
var POM []byte

// Log4j is the broker's log configuration: warnings to the standard output.
//
//go:embed log4j2.properties
var Log4j []byte
