package sqltext

import "bytes"

// comment skips a comment, and says whether there is one here.
func (n *normaliser) comment(c byte) bool {
	rest := n.in[n.at:]
	switch {
	case c == '-' && len(rest) > 1 && rest[1] == '-':
		// For MySQL white space or a control character must follow, else it is
		// arithmetic; from 0x7f on the character set says which.
		switch {
		case !n.syntax.MySQL || len(rest) == 2 || rest[2] <= ' ':
			n.line(rest)
		case rest[2] < 0x7f:
			return false
		default:
			n.end()
		}
	case c == '#' && n.syntax.MySQL:
		n.line(rest)
	case c == '/' && len(rest) > 1 && rest[1] == '*':
		if n.syntax.MySQL {
			n.flat(rest)
		} else {
			n.nested(rest)
		}
	default:
		return false
	}
	return true
}

func (n *normaliser) line(rest []byte) {
	end := "\n"
	if !n.syntax.MySQL {
		end = "\r\n"
	}
	if i := bytes.IndexAny(rest, end); i >= 0 {
		n.at += i
	} else {
		n.end()
	}
}

// flat skips a comment of MySQL. A conditional one, and a hint, is a part of the
// statement, where a string may hide the comment's end.
func (n *normaliser) flat(rest []byte) {
	i := bytes.Index(rest[2:], []byte("*/"))
	if i < 0 {
		n.end()
		return
	}
	inside := rest[2 : 2+i]
	conditional := bytes.HasPrefix(inside, []byte("!")) || bytes.HasPrefix(inside, []byte("M!")) || bytes.HasPrefix(inside, []byte("+"))
	if conditional && (bytes.ContainsAny(inside, "'\"`#\\") || bytes.Contains(inside, []byte("/*")) || bytes.Contains(inside, []byte("--"))) {
		n.end()
		return
	}
	n.at += 2 + i + 2
}

// nested skips a comment of PostgreSQL, which may hold others.
func (n *normaliser) nested(rest []byte) {
	depth := 0
	for i := 0; i+1 < len(rest); i++ {
		switch string(rest[i : i+2]) {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			n.at += i + 1
			return
		}
	}
	n.end()
}
