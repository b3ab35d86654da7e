// Package envtest gives tests a real Postgres and a broker: one of each per test binary,
// started when a test first asks, and ended by [Main].
//
//	func TestMain(m *testing.M) { envtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		url := envtest.Database(t)
//		broker := envtest.Kafka(t)
//		topic := envtest.Topic(t, broker.Brokers(), 12)
//		...
//	}
//
// Environment:
//
//	TEST_DATABASE_URL      use this server (a superuser's URL) in place of our own
//	TEST_POSTGRES_VERSION  major version of our own server
//	TEST_KAFKA_BROKERS     use these brokers (host:port, with commas) in place of our own
//	TEST_REQUIRE_KAFKA     1: a test that needs a real Kafka fails where none can be started
//	                       (CI=true does the same); else it is skipped
//
// Tests that stop, kill or freeze a server take one of their own, so that the shared ones
// stay up for the others. Our own servers run with fsync off: a killed process loses
// nothing by it, only a machine that stops would.
package envtest
