package shape

// instant is a point in time with Postgres's precision. It is two numbers because its whole
// range, 4713 BC to 294276 AD, is more microseconds since 1970 than 64 bits hold.
type instant struct {
	sec  int64 // since 1970, floored
	usec int32 // within the second, 0 to 999999
}

// ms is the instant in milliseconds since 1970, floored.
func (t instant) ms() int64 { return t.sec*1000 + int64(t.usec/1000) }

// zone says whether a text has an offset from UTC.
type zone uint8

const (
	zoneAny  zone = iota // of a column: not known
	zoneNone             // timestamp; its text is read as UTC
	zoneSome             // timestamptz
)

// parseTimestamp reads what Postgres prints for a timestamptz or a timestamp with DateStyle
// ISO, in any time zone: 2026-11-30 14:14:50.123456+00, with as many digits of the year as
// it needs, BC at the end, and an offset of hours, minutes and seconds. It is strict, and
// doesn't know infinity.
func parseTimestamp(b []byte) (t instant, z zone, ok bool) {
	p := timeText{b: b, ok: true}
	year := p.number(4, 6)
	p.expect('-')
	month := p.number(2, 2)
	p.expect('-')
	day := p.number(2, 2)
	p.expect(' ')
	hour := p.number(2, 2)
	p.expect(':')
	minute := p.number(2, 2)
	p.expect(':')
	second := p.number(2, 2)
	t.usec = p.fraction()
	offset, z := p.offset()
	bc := p.suffix(" BC")

	if !p.ok || len(p.b) > 0 || year < 1 || month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59 {
		return instant{}, zoneAny, false
	}
	if bc {
		year = 1 - year // the year before 1 is 1 BC
	}
	if day < 1 || day > daysIn(year, month) {
		return instant{}, zoneAny, false
	}
	t.sec = daysSince1970(year, month, day)*86400 + int64(hour*3600+minute*60+second-offset)
	return t, z, true
}

// timeText is what is left to read; ok turns false, and stays so, at the first thing that
// isn't as expected.
type timeText struct {
	b  []byte
	ok bool
}

// number reads all digits that follow; there must be from least to most.
func (p *timeText) number(least, most int) int {
	n, i := 0, 0
	for i < len(p.b) && i <= most && p.b[i] >= '0' && p.b[i] <= '9' {
		n = n*10 + int(p.b[i]-'0')
		i++
	}
	if i < least || i > most {
		p.ok = false
	}
	p.b = p.b[i:]
	return n
}

func (p *timeText) next(c byte) bool {
	if len(p.b) == 0 || p.b[0] != c {
		return false
	}
	p.b = p.b[1:]
	return true
}

func (p *timeText) expect(c byte) {
	if !p.next(c) {
		p.ok = false
	}
}

func (p *timeText) suffix(s string) bool {
	if string(p.b) != s {
		return false
	}
	p.b = nil
	return true
}

// fraction reads the digits after the point, if there are any, as microseconds.
func (p *timeText) fraction() int32 {
	if !p.next('.') {
		return 0
	}
	before := len(p.b)
	n := p.number(1, 6)
	for i := before - len(p.b); i < 6; i++ {
		n *= 10
	}
	return int32(n)
}

// offset reads +HH, +HH:MM or +HH:MM:SS, as seconds east of UTC.
func (p *timeText) offset() (seconds int, z zone) {
	sign := 1
	switch {
	case p.next('+'):
	case p.next('-'):
		sign = -1
	default:
		return 0, zoneNone
	}
	hours, minutes := p.number(2, 2), 0
	if p.next(':') {
		minutes = p.number(2, 2)
		if p.next(':') {
			seconds = p.number(2, 2)
		}
	}
	if hours > 15 || minutes > 59 || seconds > 59 { // Postgres allows up to 15:59:59
		p.ok = false
	}
	return sign * (hours*3600 + minutes*60 + seconds), zoneSome
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

// daysBefore is the number of days before each month of a year that isn't a leap year.
var daysBefore = [...]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

func daysIn(year, month int) int {
	n := daysBefore[month] - daysBefore[month-1]
	if month == 2 && leap(year) {
		n++
	}
	return n
}

// daysSince1970 counts in the Gregorian calendar, which Postgres extends to all of the past.
// Years are astronomical: 0 is 1 BC.
func daysSince1970(year, month, day int) int64 {
	// The calendar repeats every 400 years of 146097 days. Counting from a million years
	// before our era keeps the divisions positive for every year of six digits.
	const cycles = 2500
	y := year + 400*cycles - 1 // whole years before this one
	days := y*365 + y/4 - y/100 + y/400 + daysBefore[month-1] + day - 1
	if month > 2 && leap(year) {
		days++
	}
	const until1970 = 719162 // days of the years 1 to 1969
	return int64(days) - cycles*146097 - until1970
}
