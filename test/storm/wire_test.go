package storm

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fault that doesn't do what its name says would prove nothing. Each is tried on one record:
// does its client get an answer, and is the record in the log?

// probe is a cluster with one partition and a client that tries once.
type probe struct {
	*testing.T
	ctx     context.Context
	cluster *kfake.Cluster
	wire    *wire
	weather *weather
}

func newProbe(t *testing.T) *probe {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	w := newWire()
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.ListenFn(w.listen), kfake.SeedTopics(1, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &probe{t, ctx, c, w, newWeather(c, w, "probe", 1, 1)}
}

// client finds the leader before anything is armed.
func (p *probe) client() *kgo.Client {
	p.Helper()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(p.cluster.ListenAddrs()...),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordRetries(0), kgo.RequestRetries(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProduceRequestTimeout(100*time.Millisecond), kgo.RequestTimeoutOverhead(time.Second),
	)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(cl.Close)
	return cl
}

// try produces a record once and says whether it was answered and appended.
func (p *probe) try(cl *kgo.Client) (appended bool, err error) {
	p.Helper()
	before := p.end()
	err = cl.ProduceSync(p.ctx, &kgo.Record{Topic: "probe", Value: []byte("x")}).FirstErr()
	return p.end() > before, err
}

// end is the number of records in the log, by a client that no fault is meant for.
func (p *probe) end() int64 {
	p.Helper()
	return p.cluster.PartitionInfo("probe", 0).HighWatermark
}

func TestFatesOfOneRequest(t *testing.T) {
	for _, tc := range []struct {
		name               string
		fate               fate
		answered, appended bool
	}{
		{"spared", spared, true, true},
		{kindCutBefore, cutBefore, false, false},
		{kindCutAfter, cutAfter, false, true},
		{kindHalfAnswer, halfAnswer, false, true},
		{kindHang, hang, false, true},
		{kindDelay, delay, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newProbe(t)
			cl := p.client()
			if appended, err := p.try(cl); err != nil || !appended {
				t.Fatalf("without a fault: %v, appended %v", err, appended)
			}
			var struck atomic.Int32
			p.wire.arm(tc.fate, kmsg.Produce, func() { struck.Add(1) })
			began := time.Now()
			appended, err := p.try(cl)
			if (err == nil) != tc.answered || appended != tc.appended {
				t.Errorf("answered: %v, appended %v, want %v and %v", err, appended, tc.answered, tc.appended)
			}
			if tc.fate == delay && time.Since(began) < lateBy {
				t.Errorf("answered after %s, want not before %s", time.Since(began), lateBy)
			}
			if n := struck.Load(); n != 1 {
				t.Errorf("struck %d times", n)
			}
			// Nothing lasts.
			if appended, err := p.try(p.client()); err != nil || !appended {
				t.Errorf("afterwards: %v, appended %v", err, appended)
			}
		})
	}
}

func TestCodesOfOneRequest(t *testing.T) {
	after := []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend}
	for _, code := range codes {
		t.Run(code.Message, func(t *testing.T) {
			p := newProbe(t)
			cl := p.client()
			p.weather.answer(kindCode + code.Message)
			appended, err := p.try(cl)
			if err == nil {
				t.Error("answered without an error")
			}
			if want := slices.Contains(after, code); appended != want {
				t.Errorf("appended is %v, want %v (error %v)", appended, want, err)
			}
			if err := p.weather.settle(p.ctx, 0); err != nil {
				t.Error(err)
			}
			if n, _ := p.weather.counts(); n[kindCode+code.Message] != 1 {
				t.Errorf("counted %v", n)
			}
		})
	}
}

func TestOutage(t *testing.T) {
	p := newProbe(t)
	leader := p.cluster.LeaderFor("probe", 0)
	cl := p.client()
	if _, err := p.try(cl); err != nil {
		t.Fatal(err)
	}
	d := p.wire.door(p.weather.addresses[leader])
	d.close()
	if appended, err := p.try(p.client()); err == nil || appended {
		t.Errorf("behind a shut door: %v, appended %v", err, appended)
	}
	if now := p.cluster.LeaderFor("probe", 0); now != leader {
		t.Errorf("the leader moved from %d to %d", leader, now)
	}
	d.open()
	if appended, err := p.try(p.client()); err != nil || !appended {
		t.Errorf("behind the open door: %v, appended %v", err, appended)
	}
	p.weather.outage(leader)
	p.weather.outages.Wait()
	if appended, err := p.try(p.client()); err != nil || !appended {
		t.Errorf("after an outage: %v, appended %v", err, appended)
	}
}

func TestReplace(t *testing.T) {
	p := newProbe(t)
	before := p.cluster.PartitionInfo("probe", 0)
	old := slices.Sorted(slices.Values(p.cluster.ListenAddrs()))
	for node := range int32(3) {
		if err := p.weather.replace(node); err != nil {
			t.Fatal(err)
		}
	}
	if now := slices.Sorted(slices.Values(p.cluster.ListenAddrs())); !slices.Equal(now, old) {
		t.Errorf("addresses are %v, were %v", now, old)
	}
	if after := p.cluster.PartitionInfo("probe", 0); after.Epoch < before.Epoch+3 {
		t.Errorf("leader epoch went from %d to %d in three replacements", before.Epoch, after.Epoch)
	}
	if appended, err := p.try(p.client()); err != nil || !appended {
		t.Errorf("afterwards: %v, appended %v", err, appended)
	}
}

// Both outcomes in one request: some batches refused with a code, the others appended.
func TestCodesHitHalfOfTheRequest(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := newWire()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(w.listen), kfake.SeedTopics(8, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	newWeather(c, w, "probe", 8, 1).answer(kindCode + kerr.NotEnoughReplicas.Message)
	var recs []*kgo.Record
	for p := range int32(8) {
		recs = append(recs, &kgo.Record{Topic: "probe", Partition: p, Value: []byte("x")})
	}
	bad := 0
	for _, r := range cl.ProduceSync(ctx, recs...) {
		if r.Err != nil {
			bad++
		}
	}
	if bad == 0 || bad == 8 {
		t.Errorf("%d of 8 batches were refused, want some", bad)
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, "probe")
	if err != nil {
		t.Fatal(err)
	}
	in := 0
	for _, e := range ends["probe"] {
		in += int(e.Offset)
	}
	if in != 8-bad {
		t.Errorf("%d batches are in the log, %d were refused", in, bad)
	}
}
