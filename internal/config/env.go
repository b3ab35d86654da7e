package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	prefix     = "CDC_RELAY_"
	fileEnv    = prefix + "CONFIG"
	fromEnvFmt = "variable %s"
	// devenv begins the variables that say where demo and tests take their servers from. They
	// are no keys, and a relay that the demo starts inherits them.
	devenv = prefix + "DEVENV_"
)

// variable is the key's own name in the environment.
func (k *key) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
}

// variables are all its names in the environment.
func (k *key) variables() []string { return append([]string{k.variable()}, k.env...) }

// environment is what the variables say.
type environment struct {
	given  map[string]given
	config string // the file that CDC_RELAY_CONFIG names
}

// readEnv takes the variables that are ours. An empty one counts as not set: that is what a
// compose file or a chart makes of one that was left out.
func readEnv(l *loader, environ []string) environment {
	env := environment{given: map[string]given{}}
	set := map[string]string{}
	for _, pair := range environ {
		if name, val, _ := strings.Cut(pair, "="); val != "" {
			set[name] = val
		}
	}
	env.config = set[fileEnv]
	known := []string{fileEnv}
	for i := range table {
		k := &table[i]
		if k.section {
			continue
		}
		known = append(known, k.variables()...)
		readVariables(l, k, set, env.given)
	}
	for _, pair := range environ {
		name, val, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, devenv) || slices.Contains(known, name) || serviceLink(name, val) {
			continue
		}
		l.problem(&Problem{
			Key: name, Origin: "environment", Cause: "is no variable of cdc-relay",
			Remedy: "did you mean " + nearest(name, known) + "?",
		})
	}
	return env
}

// readVariables reads one key by all its names, which must agree.
func readVariables(l *loader, k *key, set map[string]string, out map[string]given) {
	var from string
	for _, name := range k.variables() {
		val, ok := set[name]
		if !ok {
			continue
		}
		if from != "" && set[from] != val {
			l.problem(&Problem{
				Key: k.path, Origin: "environment",
				Cause:  fmt.Sprintf("the variables %s and %s differ", from, name),
				Remedy: "set one of them",
			})
			return
		}
		if from == "" {
			from = name
			out[k.path] = given{value: value{text: val}, origin: fmt.Sprintf(fromEnvFmt, name)}
		}
	}
}

var (
	servicePattern = regexp.MustCompile(`^CDC_RELAY_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	portPattern    = regexp.MustCompile(`^CDC_RELAY_([A-Z0-9_]+_)?PORT$`)
)

// serviceLink says that the variable is one which Kubernetes puts into every container for a service
// named cdc-relay (or cdc-relay-metrics, ...), so that it is nobody's typing error.
func serviceLink(name, val string) bool {
	return servicePattern.MatchString(name) || portPattern.MatchString(name) && strings.Contains(val, "://")
}
