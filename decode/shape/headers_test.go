package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// printHeaders prints headers in one line, with null values as null.
func printHeaders(hs []Header) string {
	var ps []string
	for _, h := range hs {
		if h.Value == nil {
			ps = append(ps, fmt.Sprintf("%q=null", h.Key))
			continue
		}
		ps = append(ps, fmt.Sprintf("%q=%q", h.Key, h.Value))
	}
	return strings.Join(ps, " ")
}

// ownHeadersOf returns the headers that a row with this headers column adds.
func ownHeadersOf(t testing.TB, text string) ([]Header, error) {
	t.Helper()
	s := mustNew(t, Config{})
	e, err := s.Event(with(referenceRow(), "headers", oidJSON, text), benchPos, time.Unix(1796048091, 0))
	if err != nil {
		return nil, err
	}
	return e.Headers[ownHeaders:], nil
}

func TestRowHeaders(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{}`, ``},
		{" \t\r\n{ \n} ", ``},
		{`{"tenant": "acme"}`, `"tenant"="acme"`},
		{`{"z": "1", "a": "2", "m": "3"}`, `"z"="1" "a"="2" "m"="3"`},                     // its order
		{`{"a": "1", "b": "2", "a": "3", "a": null}`, `"a"="1" "b"="2" "a"="3" "a"=null`}, // repeated names stay
		{`{"s": "", "n": null, "": "nameless"}`, `"s"="" "n"=null ""="nameless"`},         // empty is not null
		{`{"null": "null"}`, `"null"="null"`},
		{
			`{"t": true, "f": false, "n": -0.10e+5, "big": 1234567890123456789.000100, "e": 1E400}`,
			`"t"="true" "f"="false" "n"="-0.10e+5" "big"="1234567890123456789.000100" "e"="1E400"`,
		},
		{
			`{"o": {"b":1,  "a" : [1, null, "x\u0041"]}, "l": [ ], "m": { }}`,
			`"o"="{\"b\":1,  \"a\" : [1, null, \"x\\u0041\"]}" "l"="[ ]" "m"="{ }"`,
		},
		{`{"a":"\"\\\/\b\f\n\r\t"}`, `"a"="\"\\/\b\f\n\r\t"`},
		{`{"\u0061\n":"\u043a\u043b\u044e\u0447 ключ \ud83d\ude00 \uFFFD \u0000"}`, `"a\n"="ключ ключ 😀 � \x00"`},
		{`{"o": ["\ud800"]}`, `"o"="[\"\\ud800\"]"`}, // half a pair stays half a pair in JSON text
		{
			`{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`,
			`"traceparent"="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`,
		},
		{
			`{"event_id": "1", "event_type": "2", "dedupe_key": "3", "ordering_key": "4", "position": "5", "replayed": "6", "source": null}`,
			`"row-event_id"="1" "row-event_type"="2" "row-dedupe_key"="3" "row-ordering_key"="4" "row-position"="5" "row-replayed"="6" "row-source"=null`,
		},
		{`{"\u0073ource": "1", "row-source": "2", "Source": "3", "sources": "4"}`, // by meaning, in this case only, once
			`"row-source"="1" "row-source"="2" "Source"="3" "sources"="4"`},
	} {
		hs, err := ownHeadersOf(t, tc.text)
		if got := printHeaders(hs); err != nil || got != tc.want {
			t.Errorf("headers of %s\ngot  %s, %v\nwant %s", tc.text, got, err, tc.want)
		}
	}
}

func TestRowHeadersRejected(t *testing.T) {
	for text, cause := range map[string]string{
		``:                     "is not a JSON object",
		`[]`:                   "is not a JSON object",
		`"text"`:               "is not a JSON object",
		`null`:                 "is not a JSON object",
		`7`:                    "is not a JSON object",
		`"a"=>"1"`:             "is not a JSON object",
		`{`:                    "is not valid JSON, at byte 1",
		`{"a"`:                 "is not valid JSON, at byte 4",
		`{"a":`:                "is not valid JSON, at byte 5",
		`{"a":1`:               "is not valid JSON, at byte 6",
		`{"a":1,`:              "is not valid JSON, at byte 7",
		`{"a":1,}`:             "is not valid JSON, at byte 7",
		`{,"a":1}`:             "is not valid JSON, at byte 1",
		`{"a":1 "b":2}`:        "is not valid JSON, at byte 7",
		`{"a":1}{`:             "is not valid JSON, at byte 7",
		`{"a":1}x`:             "is not valid JSON, at byte 7",
		`{a:1}`:                "is not valid JSON, at byte 1",
		`{"a":01}`:             "is not valid JSON, at byte 6",
		`{"a":[1,]}`:           "is not valid JSON, at byte 8",
		`{"a":{"b":[}]}}`:      "is not valid JSON, at byte 11",
		`{"a":[{"b":1]}}`:      "is not valid JSON, at byte 12",
		`{"a":"\ud800"}`:       "has half of a surrogate pair, which is no text, at byte 12",
		`{"a":"\udc00\ud800"}`: "has half of a surrogate pair, which is no text, at byte 18",
		`{"a":"\ud800\n"}`:     "has half of a surrogate pair, which is no text, at byte 12",
		`{"\ud800":"b"}`:       "has half of a surrogate pair, which is no text, at byte 8",
		"{\"a\":\"\n\"}":       "is not valid JSON, at byte 6",
		"{\"a\":[\"\x1f\"]}":   "is not valid JSON, at byte 8",
		"{\"a\":\"b\x00\"}":    "is not valid JSON, at byte 7",
	} {
		_, err := ownHeadersOf(t, text)
		var r *RejectError
		if !errors.As(err, &r) || r.Column != "headers" || r.Cause != cause {
			t.Errorf("headers %q: %v, want a rejected row because its headers column %s", text, err, cause)
		}
	}
}

func TestRowHeadersOfAnyDepth(t *testing.T) {
	const depth = 200_000
	deep := strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)
	hs, err := ownHeadersOf(t, `{"deep": `+deep+`}`)
	if err != nil || len(hs) != 1 || string(hs[0].Value) != deep {
		t.Errorf("%d headers, %v", len(hs), err)
	}
}

// referenceHeaders reads a headers object with encoding/json's tokens.
func referenceHeaders(text string) (hs []Header, ok bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil, false
		}
		h := Header{Key: name.(string)}
		if reserved([]byte(h.Key)) {
			h.Key = rowPrefix + h.Key
		}
		var s string
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &s) == nil:
			h.Value = []byte(s)
		default:
			h.Value = raw
		}
		hs = append(hs, h)
	}
	return hs, true
}

// hasHalfPair says whether a name or a text of the object has a lone surrogate, which
// encoding/json replaces: then it has more replacement characters than the text wrote.
func hasHalfPair(text string, hs []Header) bool {
	n := 0
	for _, h := range hs {
		n += strings.Count(h.Key, "\uFFFD") + bytes.Count(h.Value, []byte("\uFFFD"))
	}
	return n > strings.Count(text, "\uFFFD")+strings.Count(strings.ToLower(text), `\ufffd`)
}

func checkHeaders(t interface {
	Fatalf(string, ...any)
}, text string,
) {
	want, valid := referenceHeaders(text)
	s := &Shape{cfg: Config{Table: "t"}}
	s.json.b = []byte(text)
	err := s.members()
	if valid && errors.Is(err, errSurrogate) && hasHalfPair(text, want) {
		return
	}
	if (err == nil) != valid {
		t.Fatalf("headers %q: %v, while encoding/json says %v", text, err, valid)
	}
	if err != nil {
		return
	}
	var got []Header
	buf := append([]byte{}, s.buf...) // as an arena, not nil
	for _, h := range s.rows {
		got = append(got, Header{string(s.names[h.name.from:h.name.to]), h.value.of(buf)})
	}
	if g, w := printHeaders(got), printHeaders(want); g != w {
		t.Fatalf("headers %q\ngot  %s\nwant %s", text, g, w)
	}
}

// Texts put together from what JSON is made of, right or not.
func TestRowHeadersAgreeWithEncodingJSON(t *testing.T) {
	parts := []string{
		`{`, `}`, `[`, `]`, `,`, `:`, ` `, `"`, `\`, `"a"`, `"source"`, `""`, `"\n"`, `"\u00e9"`, `"\ud83d\ude00"`, `null`, `true`, `false`,
		`nul`, `0`, `-`, `1`, `1.5`, `1e5`, `E+`, `.`, `{"a":`, `"b":`, `,"c":"d"`, `{}`, `[]`, "\n", "\"\t\"", `"ключ"`,
	}
	rapid.Check(t, func(t *rapid.T) {
		inner := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), "")
		if rapid.Bool().Draw(t, "member") {
			inner = `{"k":` + inner + `}`
		}
		checkHeaders(t, inner)
	})
}

// Any object of any texts comes out as it went in.
func TestRowHeadersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.String()).Draw(t, "names")
		var members []string
		for _, n := range names {
			k, errK := json.Marshal(n)
			v, errV := json.Marshal(rapid.OneOf(rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.SliceOf(rapid.String()).AsAny()).Draw(t, "value"))
			if errK != nil || errV != nil {
				t.Fatal(errK, errV)
			}
			members = append(members, string(k)+":"+string(v))
		}
		checkHeaders(t, "{"+strings.Join(members, ",")+"}")
	})
}

func FuzzRowHeaders(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":"b"}`, `{"a":null,"source":1}`, `{"n":1234567890123456789.000100,"e":1E400}`, `{"a":[{"b":[1,"\ud83d\ude00"]}],"a":"\u0000"}`,
		`{"a":"\ud800"}`, `{"a":01}`, `[]`, ` { "a" : { } , "b" : [ ] } `, `{"a":"\`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// encoding/json replaces bytes that aren't UTF-8, and gives up at a depth of 10,000.
		if !utf8.ValidString(text) || len(text) > 9_000 {
			return
		}
		checkHeaders(t, text)
	})
}
