package devenv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	kafkafiles "github.com/cdc-relay/cdc-relay/test/kafka"
)

// KafkaEnv is the environment variable that can hide Java from us: none.
const KafkaEnv = "CDC_RELAY_DEVENV_KAFKA"

// oldestJava is what Kafka 4's broker needs.
const oldestJava = 17

// noCounters keeps a JVM from making a folder for its performance counters in /tmp, wherever
// the temporary folder is.
const noCounters = "-XX:-UsePerfData"

// javaPattern matches what `java -version` prints: openjdk version "17.0.15" 2025-04-15.
var javaPattern = regexp.MustCompile(`version "(\d+)`)

// findJava returns the Java program, from JAVA_HOME or the PATH.
func findJava(ctx context.Context) (string, error) {
	switch v := os.Getenv(KafkaEnv); v {
	case "":
	case "none":
		return "", fmt.Errorf("%w: %s=none", ErrNoKafka, KafkaEnv)
	default:
		return "", fmt.Errorf("%s=%q: the only value is none", KafkaEnv, v)
	}
	java := filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java")
	if os.Getenv("JAVA_HOME") == "" || !exists(java) {
		var err error
		if java, err = exec.LookPath("java"); err != nil {
			return "", fmt.Errorf("%w: Java %d or newer is needed, and java is not on the PATH", ErrNoKafka, oldestJava)
		}
	}
	out, err := exec.CommandContext(ctx, java, noCounters, "-version").CombinedOutput()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	m := javaPattern.FindSubmatch(out)
	if err != nil || m == nil {
		return "", fmt.Errorf("%w: %s -version doesn't work: %w: %s", ErrNoKafka, java, err, bytes.TrimSpace(out))
	}
	if major, err := strconv.Atoi(string(m[1])); err != nil || major < oldestJava {
		return "", fmt.Errorf("%w: %s is Java %s, and Kafka needs %d or newer", ErrNoKafka, java, m[1], oldestJava)
	}
	return java, nil
}

// kafkaLibraries returns the folder with the broker's jars, which Maven fetches once into
// the user's cache. work is a folder that lives as long as the broker.
func kafkaLibraries(ctx context.Context, work string, progress func(string)) (string, error) {
	sum := sha256.Sum256(kafkafiles.POM)
	cache := cacheFolder(work)
	libs := filepath.Join(cache, "kafka-"+hex.EncodeToString(sum[:6]))
	err := onceInto(ctx, libs, func(dir string) error {
		mvn, err := exec.LookPath("mvn")
		if err != nil {
			return fmt.Errorf("%w: Maven fetches it, and mvn is not on the PATH", ErrNoKafka)
		}
		pom := filepath.Join(work, "pom.xml")
		if err := os.WriteFile(pom, kafkafiles.POM, 0o644); err != nil {
			return fmt.Errorf("fetch Kafka: %w", err)
		}
		cmd := exec.Command(mvn, "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "MAVEN_OPTS="+mavenOptions(work))
		if cache == work { // there is no place to keep things in
			cmd.Args = append(cmd.Args, "-Dmaven.repo.local="+filepath.Join(work, "m2"))
		}
		return runMaven(ctx, cmd, filepath.Join(work, "maven.log"), progress)
	})
	if err != nil {
		return "", err
	}
	return libs, nil
}

// mavenOptions are for the JVM that runs Maven: nothing is left in the temporary folder, and
// the home folder is HOME, where Java goes by the user database. mvn splits them at spaces.
func mavenOptions(work string) string {
	options := []string{noCounters, "-Djava.io.tmpdir=" + work}
	if home, err := os.UserHomeDir(); err == nil {
		options = append(options, "-Duser.home="+home)
	}
	options = slices.DeleteFunc(options, func(o string) bool { return strings.Contains(o, " ") })
	return strings.Join(append([]string{os.Getenv("MAVEN_OPTS")}, options...), " ")
}

// mavenDownloaded is what Maven's log says for each file that it has fetched.
var mavenDownloaded = []byte("Downloaded from ")

// runMaven runs Maven to its end and tells how far it is.
func runMaven(ctx context.Context, cmd *exec.Cmd, log string, progress func(string)) error {
	progress("fetching Kafka with Maven (44 MB, once)")
	proc, err := StartProcess(cmd, log, syscall.SIGKILL)
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for proc.Alive() {
		select {
		case <-proc.done:
		case <-ctx.Done():
			killGroup(proc.PID())
			<-proc.done
			return fmt.Errorf("fetch Kafka with Maven: %w", context.Cause(ctx))
		case <-tick.C:
			if b, err := os.ReadFile(log); err == nil && bytes.Contains(b, mavenDownloaded) {
				progress(fmt.Sprintf("fetching Kafka with Maven (44 MB, once): %d files", bytes.Count(b, mavenDownloaded)))
			}
		}
	}
	if proc.err != nil {
		return fmt.Errorf("fetch Kafka with Maven: %w; its last lines: %s", proc.err, tail(log))
	}
	return nil
}

// kafkaVersion reads the broker's version from the name of its jar.
func kafkaVersion(libs string) (string, error) {
	const prefix = "kafka_2.13-"
	jars, _ := filepath.Glob(filepath.Join(libs, prefix+"*.jar")) // the pattern is well-formed
	if len(jars) != 1 {
		return "", fmt.Errorf("start Kafka: %s holds %d jars %s*.jar, want one: remove that folder and try again", libs, len(jars), prefix)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), prefix), ".jar"), nil
}
