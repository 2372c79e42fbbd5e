package sqltext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"taper.dev/taper/internal/capture"
)

var (
	postgres       = Syntax{Backslash: Plain}
	postgresEscape = Syntax{Backslash: Escape}
	postgresMid    = Syntax{}
	mysql          = Syntax{MySQL: true, Backslash: Escape}
	mysqlPlain     = Syntax{MySQL: true, Backslash: Plain}
	mysqlMid       = Syntax{MySQL: true}
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		syntax   Syntax
		in       string
		op, want string
	}{
		{postgres, "", "", ""},
		{postgres, "  ;", "", ""},
		{postgres, "select 1", "SELECT", "select ?"},
		{postgres, "SELECT * FROM t WHERE a = 'x''y' AND b=-1.5e-10;", "SELECT", "SELECT * FROM t WHERE a = ? AND b=-?"},
		{postgres, "SELECT *\n\tFROM t -- why\n WHERE /* a /* nested */ b */ id IN (1, 2,3 , $4)", "SELECT", "SELECT * FROM t WHERE id IN (?)"},
		{postgres, "INSERT INTO t (a,b) VALUES (1,'a'), (2,'b'),(3,'c')", "INSERT", "INSERT INTO t (a,b) VALUES (?)"},
		{postgres, `SELECT "Name 1", t2.c3, _x$y FROM "a""b"`, "SELECT", `SELECT "Name 1", t2.c3, _x$y FROM "a""b"`},
		{postgres, `SELECT E'a\'b', U&'\0041' UESCAPE '!', b'01', X'1F', n'x'`, "SELECT", "SELECT ? UESCAPE ?"},
		{postgres, `SELECT 'a\', c FROM t`, "SELECT", "SELECT ?, c FROM t"},
		{postgresEscape, `SELECT 'a\', c', d FROM t`, "SELECT", "SELECT ?, d FROM t"},
		{postgresMid, `SELECT 'a\\n', c, 'x\', d FROM t`, "SELECT", "SELECT ?, c, ?"},
		{postgres, "SELECT E'a'\n'b\\'c', d", "SELECT", "SELECT ?"},
		{postgres, "SELECT $$a'b$$, $t$ $$ $u$ $t$ FROM a$t$b", "SELECT", "SELECT ? FROM a$t$b"},
		{postgres, "SELECT $t$ no end", "SELECT", "SELECT ?"},
		{postgres, "SELECT 'no end", "SELECT", "SELECT ?"},
		{postgres, "SELECT a FROM \"no end", "SELECT", "SELECT a FROM ?"},
		{postgres, "SELECT a /* no end 'x'", "SELECT", "SELECT a"},
		{postgres, "SELECT a -- no end 'x'", "SELECT", "SELECT a"},
		{postgres, "SELECT 0x1F, 1_000, .5, 5., 1e5 FROM t1", "SELECT", "SELECT ? FROM t1"},
		{postgres, "SELECT 1e--'\n, a, 'b'", "SELECT", "SELECT ?, a, ?"},
		{postgres, "SELECT a.b, x.1 FROM t", "SELECT", "SELECT a.b, x.? FROM t"},
		{postgres, "SET app.token TO abc", "SET", "SET app.token TO ?"},
		{postgres, "set search_path = a, b", "SET", "set search_path = ?"},
		{postgres, "UPDATE t SET a = b WHERE c->>'k' ? 'x'", "UPDATE", "UPDATE t SET a = b WHERE c->>?"},
		{postgres, "CREATE USER u PASSWORD 'x'", "CREATE", "CREATE USER u PASSWORD ?"},
		{postgres, "(SELECT 1) UNION (SELECT 2)", "SELECT", "(SELECT ?) UNION (SELECT ?)"},
		{postgres, "1a b", "B", "? b"},
		{postgres, "größe2 x", "?", "größe2 x"},
		{postgres, "SELECT \"a\x1b[0m\xff\"", "SELECT", `SELECT "a?[0m?"`},
		{postgres, "SELECT ` , 'x`' , y", "SELECT", "SELECT `, ?, y"},
		{mysql, "SELECT \"a\", 'b', `c``d` FROM `t` WHERE x = ? AND y IN (?,?, ?) # why\n LIMIT 5, 10", "SELECT", "SELECT ?, `c``d` FROM `t` WHERE x = ? AND y IN (?) LIMIT ?"},
		{mysql, `SELECT 'O\'Brien', "a""b", c`, "SELECT", `SELECT ?, c`},
		{mysql, `SELECT "a\"b", c`, "SELECT", `SELECT ?`},
		{mysqlPlain, `SELECT 'a\', "b\", c`, "SELECT", `SELECT ?, c`},
		{mysqlMid, `SELECT 'a\'b', c`, "SELECT", `SELECT ?`},
		{mysqlMid, `SELECT 'a\nb', c`, "SELECT", `SELECT ?, c`},
		{mysql, "SELECT '\xbf\\' , secret", "SELECT", "SELECT ?"},
		{mysql, "SELECT a--1, b -- why 'x\n, c", "SELECT", "SELECT a--?, b, c"},
		{mysql, "SELECT /*!40001 SQL_NO_CACHE */ a, /* 'x' */ b", "SELECT", "SELECT a, b"},
		{mysql, "SELECT /*!40001 '*/' */, 'x'", "SELECT", "SELECT"},
		{mysql, "SELECT x'1F', b'01', N'x', _utf8'x', 0xFF", "SELECT", "SELECT ?, _utf8?"},
		{mysql, "SET PASSWORD FOR u = x", "SET", "SET PASSWORD FOR u = ?"},
		{mysql, "select $$a from t", "SELECT", "select $$a from t"},
	} {
		if op, got := test.syntax.Normalise([]byte(test.in)); op != test.op || got != test.want {
			t.Errorf("%+v %q:\n%q %q; want\n%q %q", test.syntax, test.in, op, got, test.op, test.want)
		}
	}
}

func TestLong(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"SELECT * FROM t WHERE id IN (" + strings.Repeat("'abc', ", 9000) + "1) AND x": "SELECT * FROM t WHERE id IN (?) AND x",
		"INSERT INTO t VALUES " + strings.Repeat("(1, 'x'),", 9000) + "(2, 'y')":       "INSERT INTO t VALUES (?)",
		"SELECT " + strings.Repeat("ä", 300):                                           "SELECT " + strings.Repeat("ä", (capture.MaxText-7)/2),
	} {
		if _, got := postgres.Normalise([]byte(in)); got != want {
			t.Errorf("%.60q…: %q; want %q", in, got, want)
		}
	}
}

// secret is in every literal of a made statement, and nowhere else.
const secret = "zQ7"

// literals write content as a literal that the syntax reads right, in several ways.
func literals(s Syntax, content string) []string {
	double := strings.ReplaceAll(content, "'", "''")
	escaped := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(content)
	var all []string
	switch {
	case s.Backslash == Escape:
		all = append(all, "'"+escaped+"'", "'"+strings.ReplaceAll(strings.ReplaceAll(content, `\`, `\\`), "'", "''")+"'")
	default:
		all = append(all, "'"+double+"'")
	}
	if s.MySQL {
		quotes := strings.ReplaceAll(content, `"`, `""`)
		if s.Backslash == Escape {
			quotes = strings.ReplaceAll(strings.ReplaceAll(content, `\`, `\\`), `"`, `\"`)
		}
		return append(all, `"`+quotes+`"`, "0xA"+secret, "_utf8"+all[0], "N"+all[0])
	}
	all = append(all, "E'"+escaped+"'", "5"+secret, "E'"+escaped+"'\n'"+escaped+"'", "U&"+"'"+strings.ReplaceAll(double, `\`, `\\`)+"'")
	for _, tag := range []string{"", "t", "_ü1"} {
		if !strings.Contains(content+"$", "$"+tag+"$") {
			all = append(all, "$"+tag+"$"+content+"$"+tag+"$")
		}
	}
	return all
}

// between are pieces that stand between literals, by syntax.
func between(s Syntax) []string {
	all := []string{
		" ", ", ", "(", ")", " a ", " + ", " - ", " / ", " * ", " FROM t", "\n", " -- it's\n", " /* it's \" ` $$ */ ", ".", "=", ";", " e", " u", ":", "@", "é",
	}
	if s.MySQL {
		return append(all, " `it's` ", " # it's\n", "--1 ", " /*!50000 x */ ", " x$y ")
	}
	return append(all, ` "it's" `, " /* /* ' */ ' */ ", " a$t$ ", " $1 ", "`", "#", " ? ")
}

// FuzzSecret makes statements of pieces and literals that hold a secret. However they are
// put together, and wherever they are cut, no secret is left, neither when the connection's
// settings are known nor when they are not.
func FuzzSecret(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, `a'b\`, uint16(0))
	f.Add([]byte{200, 2, 201, 4, 202, 6, 203, 8, 204}, `\'`, uint16(30))
	f.Add([]byte{200, 0, 0, 210, 0, 0, 220}, "$$\xbf\\'\"", uint16(0))
	f.Fuzz(func(t *testing.T, script []byte, around string, cut uint16) {
		if len(script) > 200 || len(around) > 100 {
			return
		}
		for _, s := range []Syntax{postgres, postgresEscape, mysql, mysqlPlain} {
			if strings.Contains(around, secret) || s.Backslash == Escape && !utf8.ValidString(around) {
				continue // a character set of two bytes has another truth
			}
			statement := made(s, script, around)
			if n := int(cut); n > 0 && n < len(statement) {
				statement = statement[:n]
			}
			for _, as := range []Syntax{s, {MySQL: s.MySQL}} {
				op, got := as.Normalise([]byte(statement))
				if strings.Contains(got, secret) || strings.Contains(op, strings.ToUpper(secret)) {
					t.Errorf("%+v %q:\n%q %q", as, statement, op, got)
				}
				if len(got) > capture.MaxText || !utf8.ValidString(got) {
					t.Errorf("%+v %q:\n%q", as, statement, got)
				}
			}
		}
	})
}

// made is a statement: each byte of the script chooses a piece, or from 128 on a literal.
func made(s Syntax, script []byte, around string) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	pieces, data := between(s), literals(s, around+secret+around)
	for i, c := range script {
		if c < 128 {
			b.WriteString(pieces[int(c)%len(pieces)])
			continue
		}
		// A literal stands alone: what touches it could make something else of it.
		if i > 0 && script[i-1] >= 128 {
			b.WriteByte(' ')
		}
		b.WriteString(" " + data[int(c)%len(data)] + " ")
	}
	return b.String()
}

// FuzzNormalise reads anything.
func FuzzNormalise(f *testing.F) {
	f.Add([]byte("SELECT a FROM t WHERE b = 'c' -- d"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, s := range []Syntax{postgres, postgresEscape, postgresMid, mysql, mysqlPlain, mysqlMid} {
			op, got := s.Normalise(in)
			if len(got) > capture.MaxText || len(op) > maxOperation || !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\n\x7f") {
				t.Errorf("%+v %q: %q %q", s, in, op, got)
			}
		}
	})
}

func BenchmarkNormalise(b *testing.B) {
	in := []byte("SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id IN (1, 2, 3, 4) AND o.state = 'open' ORDER BY o.id LIMIT 10")
	b.ReportAllocs()
	for b.Loop() {
		postgres.Normalise(in)
	}
}
