package mysql

import (
	"bytes"
	"encoding/binary"

	"taper.dev/taper/internal/capture/framing"
	"taper.dev/taper/internal/capture/sqltext"
)

// command is a command's number.
type command byte

// Commands.
const (
	comQuit            command = 0x01
	comInitDB          command = 0x02
	comQuery           command = 0x03
	comFieldList       command = 0x04
	comStatistics      command = 0x09
	comProcessInfo     command = 0x0a
	comPing            command = 0x0e
	comChangeUser      command = 0x11
	comBinlogDump      command = 0x12
	comPrepare         command = 0x16
	comExecute         command = 0x17
	comSendLongData    command = 0x18
	comClose           command = 0x19
	comReset           command = 0x1a
	comFetch           command = 0x1c
	comBinlogDumpGTID  command = 0x1e
	comResetConnection command = 0x1f
	comBulkExecute     command = 0xfa // of MariaDB
)

// name is the command's, "" if there is none.
func (c command) name() string {
	if c == comBulkExecute {
		return "EXECUTE"
	}
	if int(c) < len(names) {
		return names[c]
	}
	return ""
}

var names = [...]string{
	comQuit: "QUIT", comInitDB: "INIT_DB", comQuery: "QUERY", comFieldList: "FIELD_LIST", 0x05: "CREATE_DB",
	0x06: "DROP_DB", 0x07: "REFRESH", 0x08: "SHUTDOWN", comStatistics: "STATISTICS",
	comProcessInfo: "PROCESS_INFO", 0x0c: "PROCESS_KILL", 0x0d: "DEBUG", comPing: "PING",
	comChangeUser: "CHANGE_USER", comBinlogDump: "BINLOG_DUMP", 0x15: "REGISTER_SLAVE",
	comPrepare: "PREPARE", comExecute: "EXECUTE",
	comSendLongData: "SEND_LONG_DATA", comClose: "CLOSE", comReset: "STMT_RESET", 0x1b: "SET_OPTION",
	comFetch: "FETCH", comBinlogDumpGTID: "BINLOG_DUMP", comResetConnection: "RESET_CONNECTION",
}

// Capabilities.
const (
	capCompress        = 1 << 5
	capTLS             = 1 << 11
	capDeprecateEOF    = 1 << 24
	capCompressZstd    = 1 << 26
	capQueryAttributes = 1 << 27
)

// fromClient takes a packet of the client, and says whether TLS follows it.
func (p *parser) fromClient(m *framing.Message) (tls bool) {
	switch {
	case p.starting && m.Header[3] != 0:
		return p.login(m)
	case m.Header[3] != 0:
		// More of a command, a file, or of authentication.
		if n := len(p.open); n > 0 {
			p.open[n-1].sequence = m.Header[3] + 1
			if p.open[n-1].state != authenticating {
				p.open[n-1].Request.Extend(m.Span())
			}
		}
	case len(m.Body) > 0:
		p.starting = false
		p.command(command(m.Body[0]), m)
	}
	return false
}

// login takes the answer to the greeting, or what comes before it when TLS is wanted.
func (p *parser) login(m *framing.Message) (tls bool) {
	const onlyTLS = 32 // bytes: there is no user
	if len(m.Body) >= 4 {
		p.capabilities &= binary.LittleEndian.Uint32(m.Body)
	}
	if m.Size == onlyTLS && p.capabilities&capTLS != 0 {
		return true
	}
	p.starting = false
	p.begin(m, "startup", authenticating)
	return false
}

// command takes a command.
func (p *parser) command(c command, m *framing.Message) {
	name := c.name()
	rest := m.Body[1:]
	switch c {
	case comQuit, comSendLongData:
		p.settle()
	case comClose:
		p.settle()
		p.prepared.drop(id(rest))
	case comQuery:
		x := p.begin(m, name, firstPacket)
		if text, ok := p.query(rest); ok {
			x.Op, x.Target = p.normalise(text)
		}
	case comPrepare:
		x := p.begin(m, name, firstOfPrepare)
		x.statement.op, x.statement.text = p.normalise(rest)
		x.Target = x.statement.text
	case comExecute, comBulkExecute:
		x := p.begin(m, name, firstPacket)
		if s, ok := p.executed(id(rest)); ok {
			x.Op, x.Target = s.op, s.text
		}
	case comBinlogDump, comBinlogDumpGTID:
		p.begin(m, name, onePacket)
		p.Close()
		p.ignored = true
	case comFieldList, comFetch:
		p.begin(m, name, rows)
	case comStatistics:
		p.begin(m, name, onePacket)
	case comChangeUser:
		p.begin(m, name, authenticating)
	default:
		if name == "" {
			name = "?"
		}
		p.begin(m, name, firstPacket)
	}
}

// normalise takes the data out of a statement. One that may set how backslashes are read
// leaves that open until the server says what came of it.
func (p *parser) normalise(query []byte) (op, text string) {
	op, text = p.syntax.Normalise(query)
	if bytes.Contains(bytes.ToLower(query), []byte("sql_mode")) {
		p.syntax.Backslash = sqltext.Unknown
	}
	return op, text
}

// query is the statement behind a query's attributes; false if there are any, since then
// it is not known where it begins.
func (p *parser) query(rest []byte) ([]byte, bool) {
	if len(rest) < 2 || p.capabilities != 0 && p.capabilities&capQueryAttributes == 0 {
		return rest, true
	}
	if rest[0] == 0 && rest[1] == 1 {
		return rest[2:], true
	}
	return rest, p.capabilities == 0 && rest[0] >= '\t'
}

// executed is the statement that has an id. An id of -1 is that of the last Prepare,
// whose response may be still to come.
func (p *parser) executed(id uint32) (statement, bool) {
	const last = 1<<32 - 1
	if id != last {
		return p.prepared.get(id)
	}
	for i := len(p.open) - 2; i >= 0; i-- {
		if s := p.open[i].statement; s.op != "" {
			return s, true
		}
	}
	return p.prepared.last, p.prepared.last.op != ""
}

// id is a statement's.
func id(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// statement is one without data.
type statement struct{ op, text string }

// prepared remembers statements by their ids, which servers count up. When there are too
// many the oldest is forgotten.
type prepared struct {
	byID    map[uint32]statement
	inOrder []uint32 // may hold dropped ids
	last    statement
}

func (p *prepared) get(id uint32) (statement, bool) {
	s, ok := p.byID[id]
	return s, ok
}

func (p *prepared) put(id uint32, s statement) {
	if p.byID == nil {
		p.byID = make(map[uint32]statement)
	}
	if _, known := p.byID[id]; !known {
		if len(p.inOrder) == maxPrepared {
			delete(p.byID, p.inOrder[0])
			p.inOrder = append(p.inOrder[:0], p.inOrder[1:]...)
		}
		p.inOrder = append(p.inOrder, id)
	}
	p.byID[id], p.last = s, s
}

func (p *prepared) drop(id uint32) { delete(p.byID, id) }
