package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/test/lab"
)

var (
	soakFor  = flag.Duration("soak", 20*time.Second, "how long TestSoak strikes")
	soakSeed = flag.Uint64("soak.seed", 0, "what TestSoak does, and in which order; 0 takes one from the clock")
	soakRate = flag.Float64("soak.rate", 400, "events per second that TestSoak writes, on average")
)

// allKindsFrom is the length from which on a soak must have struck with each kind of fault.
const allKindsFrom = 10 * time.Minute

// soak is a run of TestSoak. Which faults, when, how long, and what is written come from the seed; how
// it meets with what the servers do at that moment doesn't.
type soak struct {
	*world
	rnd     *rand.Rand
	traffic *traffic
	watch   *watch
	deck    []fault // what is left of the pack that was shuffled last
	idles   int
	began   time.Time
	// well says that all has recovered from the last step.
	well bool

	mu    sync.Mutex
	steps []step
}

// note adds a step.
func (s *soak) note(st step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, st)
}

// struck is the number of steps so far, and the last one.
func (s *soak) struck() (int, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.steps) == 0 {
		return 0, "none"
	}
	return len(s.steps), s.steps[len(s.steps)-1].what
}

// step is one fault, or two at once.
type step struct {
	crime
	faults    []fault
	held      time.Duration
	calm      bool // it struck alone, and all was well before
	missed    bool // a part of it found nothing to strike
	recovered bool // all was well before the next one
	first     time.Duration
}

// TestSoak mixes all faults with an application at work, for as long as -soak says:
//
//	go test ./test/crash -run '^TestSoak$' -v -timeout 0 -args -soak 30m
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d; again: go test ./test/crash -run '^TestSoak$' -v -timeout 0 -args -soak %s -soak.rate %g -soak.seed %d", seed, *soakFor, *soakRate, seed)
	if at, ok := t.Deadline(); ok {
		if err := enough(time.Now(), at, *soakFor); err != nil {
			t.Fatal(err)
		}
	}
	// Who interrupts a soak sees why it was slow, or hung: it fails in good order and keeps everything.
	interrupted, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	s := newSoak(t, seed)
	stopProgress := s.progress()
	for end := s.began.Add(*soakFor); time.Now().Before(end) && !t.Failed(); {
		if s.well && s.rnd.IntN(12) == 0 {
			s.idle()
		} else {
			s.strike()
		}
		s.writeSteps(seed)
		if interrupted.Err() != nil {
			t.Fatal("interrupted")
		}
	}
	s.recover()
	stopProgress()
	s.finish(seed)
}

func newSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	s := &soak{rnd: newRand(seed, 0)}
	keeper := newKeeper(t)
	senderTimeout := []time.Duration{4 * time.Second, 10 * time.Second}[s.rnd.IntN(2)]
	buffer := []int64{defaultBuffer, 1 << 20}[s.rnd.IntN(2)] // and one that is full all the time
	t.Logf("wal_sender_timeout %s, kafka.buffer_bytes %d", senderTimeout, buffer)
	s.watch = newWatch(t, buffer)
	s.world = newWorld(t, senderTimeout, keeper.dir, s.watch.born, "--kafka-buffer-bytes", strconv.FormatInt(buffer, 10))
	keeper.keep(s, seed)
	s.Exec(keepSQL)
	s.watch.start(s.Lab)
	s.traffic = begin(t, s.URL, seed, *soakRate)
	s.began = time.Now()
	s.well = true
	return s
}

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// draw takes the next fault of the pack. A new pack is shuffled when it is used up, so that each kind
// comes before any comes again.
func (s *soak) draw() fault {
	if len(s.deck) == 0 {
		s.deck = faults()
		s.rnd.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	f := s.deck[0]
	s.deck = s.deck[1:]
	return f
}

// drawOther takes the next fault of the pack that strikes another part, if there is one.
func (s *soak) drawOther(than fault) (fault, bool) {
	for i, f := range s.deck {
		if f.hits&than.hits == 0 {
			s.deck = append(s.deck[:i:i], s.deck[i+1:]...)
			return f, true
		}
	}
	return fault{}, false
}

// duration draws a time: mostly short, sometimes longer than what any side bears.
func (s *soak) duration() time.Duration {
	between := func(a, b time.Duration) time.Duration { return a + time.Duration(s.rnd.Int64N(int64(b-a))) }
	switch n := s.rnd.IntN(10); {
	case n < 6:
		return between(20*time.Millisecond, time.Second)
	case n < 9:
		return between(time.Second, 4*time.Second)
	default:
		return between(4*time.Second, 15*time.Second)
	}
}

// strike is one step: a fault or two, after a while of traffic, and mostly the recovery from it. All
// is drawn before anything happens, so that the seed alone decides.
func (s *soak) strike() {
	first := s.draw()
	struck := []fault{first}
	if s.rnd.IntN(4) == 0 {
		if second, ok := s.drawOther(first); ok {
			struck = append(struck, second)
		}
	}
	before, held, between := s.duration()/2, s.duration(), s.duration()/10
	reversed, rush := s.rnd.IntN(2) == 0, s.rnd.IntN(4) == 0
	hits := part(0)
	for _, f := range struck {
		hits |= f.hits
		if f.longest > 0 {
			held = min(held, f.longest)
		}
	}
	if hits == everything && !s.well {
		s.recover()
	}
	hold(min(before, 3*time.Second))
	s.alive()
	s.calm = s.well && len(struck) == 1
	st := step{crime: scene(s.t, s.Lab, names(struck), "true"), faults: struck, held: held, calm: s.calm}
	s.well = false
	s.watch.memory()
	misses := s.misses
	for i, f := range struck {
		if i > 0 {
			hold(between)
		}
		f.begin(s.world)
	}
	st.missed = s.misses > misses
	s.note(st)
	hold(held)
	if reversed && len(struck) == 2 {
		struck[0], struck[1] = struck[1], struck[0]
	}
	for _, f := range struck {
		if f.end != nil {
			f.end(s.world)
		}
	}
	if !rush {
		s.recover()
	}
}

func names(all []fault) string {
	var names []string
	for _, f := range all {
		names = append(names, f.name)
	}
	return strings.Join(names, " + ")
}

// recover waits until the relay has found back by itself.
func (s *soak) recover() {
	s.t.Helper()
	if s.well {
		return
	}
	first := s.recovered()
	s.well = true
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.steps[len(s.steps)-1]
	last.recovered, last.first = true, first
}

// The parts of an idle phase: until the last event has been stored, and then.
const (
	idleBefore = 3 * time.Second
	idleFor    = 8 * time.Second
)

// idle lets the application rest. The relay then has nothing to do, and does nothing: it writes its
// position only for the sake of WAL that others wrote, of which it lets 256 KiB pass each time.
func (s *soak) idle() {
	s.t.Helper()
	s.traffic.pause()
	defer s.traffic.resume()
	s.Settle()
	hold(idleBefore)
	before, records := s.watch.view(), s.Records()
	hold(idleFor)
	after := s.watch.view()
	allowed := 1 + int(after.current-before.current)/(256<<10)
	if n := after.writes - before.writes; n > allowed {
		s.t.Errorf("%d writes of the position in %s without events, in which %d bytes of WAL were written: at most %d are due",
			n, idleFor, after.current-before.current, allowed)
	}
	if n := s.Records() - records; n != 0 {
		s.t.Errorf("%d records were published in an idle phase", n)
	}
	if n := after.looks - before.looks; n < int(idleFor/time.Second) {
		s.t.Errorf("%d looks at the position in an idle phase of %s: it proves nothing", n, idleFor)
	}
	s.truthful()
	s.idles++
}

// progress prints a line every ten seconds until it is stopped.
func (s *soak) progress() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	stop = func() {
		cancel()
		<-done
	}
	s.t.Cleanup(stop)
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.t.Log(s.line(ctx))
			}
		}
	}()
	return stop
}

func (s *soak) line(ctx context.Context) string {
	records := "?" // the broker is away
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if ends, err := s.Ends(short); err == nil {
		records = fmt.Sprint(lab.Count(ends))
	}
	v := s.watch.view()
	n, last := s.struck()
	return fmt.Sprintf("%5s  %8d events  %8s records  %9d bytes behind  %3d faults, last: %s  relay %d, %d MiB",
		time.Since(s.began).Round(time.Second), s.traffic.committed.Load(), records, v.current-v.stored, n, last, v.started, v.rss>>20)
}
