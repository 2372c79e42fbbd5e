package capture

// Chunk is the next bytes that one side of a connection sent, in order.
type Chunk struct {
	Side Side
	// Mark is the packet that completed them: bytes that came too early are told with the
	// packet that filled the gap before them, since no reader could have read them sooner.
	Mark Mark
	// Missing bytes before Data are not in the capture: cut by the snap length, or not
	// captured at all.
	Missing int
	// Data are the bytes, valid during the call; may be empty when Missing is not 0.
	Data []byte
}

// Parser understands the bytes of one connection.
//
// It is given all chunks of both sides, in the order in which they were complete, and
// tells exchanges as soon as they are answered. It never fails: when it loses its way it
// looks for the next message, and says in Lost how many bytes it skipped.
type Parser interface {
	// Chunk takes the next bytes. It returns what the connection speaks from now on, if
	// that changes.
	Chunk(Chunk) Handover
	// Close tells what is still unanswered; nothing is called after it.
	Close()
	// Lost is how many bytes could not be understood.
	Lost() uint64
}

// Handover hands a connection over to another protocol. The zero value goes on.
type Handover struct {
	// To is the protocol, Rest what the parser did not use of the chunk's Data.
	To   string
	Rest []byte
}

// Emit takes a finished exchange. Conn, Index and Process are the caller's to set, and
// Protocol where the parser left it empty; parsers set all else.
type Emit func(*Exchange)

// Protocol makes parsers for connections that it recognises.
type Protocol struct {
	// Name is one of the protocols above.
	Name string
	// Transport carries it; zero is either.
	Transport Transport
	// Ports are where it is usually served; tried when content does not decide.
	Ports []uint16
	// Recognise looks at the first bytes that one side sent, at most RecogniseBytes.
	Recognise func(first []byte) Recognition
	// New makes a parser for a connection.
	New func(*Conn, Emit) Parser
}

// RecogniseBytes is how many bytes of a side are looked at to recognise a protocol.
const RecogniseBytes = 64

// Recognition is what the first bytes of one side say.
type Recognition uint8

// Recognitions.
const (
	// NotIt: these bytes are not this protocol's.
	NotIt Recognition = iota
	// Perhaps: they could be; the port decides.
	Perhaps
	// ByClient and ByServer: they are, sent by this side.
	ByClient
	ByServer
)

// Sink takes what a capture tells, in the order in which it becomes known.
type Sink interface {
	// Exchange is told when it is answered, or given up. Its Conn is not complete yet.
	Exchange(*Exchange)
	// Stall is told when it has ended.
	Stall(*Stall)
	// Conn is told when it has ended or was given up, after all of its exchanges.
	Conn(*Conn)
	// Advance says that all exchanges that are answered and began before t were told.
	Advance(t Time)
}
