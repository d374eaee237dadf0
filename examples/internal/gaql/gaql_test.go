package gaql

import (
	"errors"
	"testing"

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"select campaign.id from campaign", "SELECT campaign.id FROM campaign"},
		{"SELECT campaign.id,\n campaign.name FROM campaign WHERE campaign.status = ENABLED AND campaign.name LIKE 'A%'",
			"SELECT campaign.id, campaign.name FROM campaign WHERE campaign.status = ENABLED AND campaign.name LIKE 'A%'"},
		{`SELECT a.b FROM a WHERE a.b = "it's \"\\"`, `SELECT a.b FROM a WHERE a.b = 'it\'s "\\'`},
		{"SELECT a.b FROM a WHERE a.b IN (1,-2.5 , 'x') and a.c not in (Y)", "SELECT a.b FROM a WHERE a.b IN (1, -2.5, 'x') AND a.c NOT IN (Y)"},
		{"SELECT a.b FROM a WHERE a.d BETWEEN '2026-01-01' AND '2026-01-31' AND a.e DURING LAST_7_DAYS",
			"SELECT a.b FROM a WHERE a.d BETWEEN '2026-01-01' AND '2026-01-31' AND a.e DURING LAST_7_DAYS"},
		{"SELECT a.b FROM a WHERE a.b IS NULL AND a.c IS NOT NULL AND a.d NOT LIKE 'x' AND a.e != 1 AND a.f>=2 AND a.g<3",
			"SELECT a.b FROM a WHERE a.b IS NULL AND a.c IS NOT NULL AND a.d NOT LIKE 'x' AND a.e != 1 AND a.f >= 2 AND a.g < 3"},
		{"SELECT a.b FROM a ORDER BY a.b desc, a.c ASC, a.d LIMIT 5 PARAMETERS include_drafts=true, x = 'y'",
			"SELECT a.b FROM a ORDER BY a.b DESC, a.c, a.d LIMIT 5 PARAMETERS include_drafts = true, x = 'y'"},
	} {
		q, err := Parse(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
			continue
		}
		if got := q.String(); got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.in, got, tc.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		in   string
		code adspb.QueryErrorEnum_QueryError
		pos  int
	}{
		{"", adspb.QueryErrorEnum_EXPECTED_SELECT, 0},
		{"FROM a", adspb.QueryErrorEnum_EXPECTED_SELECT, 0},
		{"SELECT", adspb.QueryErrorEnum_UNEXPECTED_END_OF_QUERY, 6},
		{"SELECT a.b", adspb.QueryErrorEnum_EXPECTED_FROM, 10},
		{"SELECT a.b WHERE", adspb.QueryErrorEnum_EXPECTED_FROM, 11},
		{"SELECT a.b FROM", adspb.QueryErrorEnum_UNEXPECTED_END_OF_QUERY, 15},
		{"SELECT a.b, FROM a", adspb.QueryErrorEnum_UNEXPECTED_INPUT, 12},
		{"SELECT A.b FROM a", adspb.QueryErrorEnum_BAD_FIELD_NAME, 7},
		{"SELECT a..b FROM a", adspb.QueryErrorEnum_BAD_FIELD_NAME, 7},
		{"SELECT a.b FROM a x", adspb.QueryErrorEnum_UNEXPECTED_INPUT, 18},
		{"SELECT a.b FROM a WHERE a.b", adspb.QueryErrorEnum_UNEXPECTED_END_OF_QUERY, 27},
		{"SELECT a.b FROM a WHERE a.b ~ 1", adspb.QueryErrorEnum_BAD_SYMBOL, 28},
		{"SELECT a.b FROM a WHERE a.b ! 1", adspb.QueryErrorEnum_BAD_OPERATOR, 28},
		{"SELECT a.b FROM a WHERE a.b CONTAINS ANY (1)", adspb.QueryErrorEnum_BAD_OPERATOR, 28},
		{"SELECT a.b FROM a WHERE a.b REGEXP_MATCH 'x'", adspb.QueryErrorEnum_BAD_OPERATOR, 28},
		{"SELECT a.b FROM a WHERE a.b NOT REGEXP_MATCH 'x'", adspb.QueryErrorEnum_BAD_OPERATOR, 32},
		{"SELECT a.b FROM a WHERE a.b IS 1", adspb.QueryErrorEnum_BAD_OPERATOR, 31},
		{"SELECT a.b FROM a WHERE a.b = ,", adspb.QueryErrorEnum_BAD_VALUE, 30},
		{"SELECT a.b FROM a WHERE a.b = 1x", adspb.QueryErrorEnum_BAD_NUMBER, 30},
		{"SELECT a.b FROM a WHERE a.b = 1.2.3", adspb.QueryErrorEnum_BAD_NUMBER, 30},
		{"SELECT a.b FROM a WHERE a.b = 'x", adspb.QueryErrorEnum_STRING_NOT_TERMINATED, 30},
		{"SELECT a.b FROM a WHERE a.b = 'x\\", adspb.QueryErrorEnum_STRING_NOT_TERMINATED, 30},
		{"SELECT a.b FROM a WHERE a.b = 'x\n'", adspb.QueryErrorEnum_PROHIBITED_NEWLINE_IN_STRING, 30},
		{"SELECT a.b FROM a WHERE a.b = '\\n'", adspb.QueryErrorEnum_BAD_ESCAPE_SEQUENCE, 31},
		{"SELECT a.b FROM a WHERE a.b IN 1", adspb.QueryErrorEnum_EXPECTED_LIST, 31},
		{"SELECT a.b FROM a WHERE a.b IN ()", adspb.QueryErrorEnum_PROHIBITED_EMPTY_LIST_IN_CONDITION, 32},
		{"SELECT a.b FROM a WHERE a.b IN (1", adspb.QueryErrorEnum_UNEXPECTED_END_OF_QUERY, 33},
		{"SELECT a.b FROM a WHERE a.b BETWEEN 1, 2", adspb.QueryErrorEnum_EXPECTED_AND, 37},
		{"SELECT a.b FROM a WHERE a.b DURING 'x'", adspb.QueryErrorEnum_INVALID_VALUE_WITH_DURING_OPERATOR, 35},
		{"SELECT a.b FROM a WHERE a.b = 1 OR a.c = 2", adspb.QueryErrorEnum_UNEXPECTED_INPUT, 32},
		{"SELECT a.b FROM a ORDER a.b", adspb.QueryErrorEnum_EXPECTED_BY, 24},
		{"SELECT a.b FROM a LIMIT x", adspb.QueryErrorEnum_BAD_LIMIT_VALUE, 24},
		{"SELECT a.b FROM a LIMIT 1.5", adspb.QueryErrorEnum_BAD_LIMIT_VALUE, 24},
		{"SELECT a.b FROM a LIMIT 0", adspb.QueryErrorEnum_LIMIT_VALUE_TOO_LOW, 24},
		{"SELECT é FROM a", adspb.QueryErrorEnum_BAD_SYMBOL, 7},
	} {
		_, err := Parse(tc.in)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != tc.code || e.Pos != tc.pos {
			t.Errorf("%q: got %v, want %v at %d", tc.in, err, tc.code, tc.pos)
		}
	}
}

// A query that parses prints as one that parses to the same text; no input
// makes the parser panic or answer with anything but its own error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"SELECT campaign.id, metrics.clicks FROM campaign WHERE segments.date DURING LAST_7_DAYS ORDER BY metrics.clicks DESC LIMIT 10",
		`SELECT a.b FROM a WHERE a.b IN ('x', "y\\") AND a.c BETWEEN -1 AND 2.5 PARAMETERS p = TRUE`,
		"SELECT a FROM a WHERE a NOT IN (1) AND b IS NOT NULL", "SELECT", "'", "\\", "SELECT a FROM a LIMIT 99999999999999999999",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := Parse(s)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Pos < 0 || e.Pos > len(s) || e.Code <= adspb.QueryErrorEnum_UNKNOWN {
				t.Fatalf("%q: %#v", s, err)
			}
			return
		}
		once := q.String()
		again, err := Parse(once)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", s, once, err)
		}
		if again.String() != once {
			t.Fatalf("%q prints as %q, then as %q", s, once, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("SELECT campaign.id, campaign.name, metrics.clicks, metrics.cost_micros, segments.date FROM campaign WHERE segments.date DURING LAST_7_DAYS"); err != nil {
			b.Fatal(err)
		}
	}
}
