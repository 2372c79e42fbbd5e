package redis

import (
	"bytes"
	"strings"

	"taper.dev/taper/internal/capture"
)

// subcommands are those that are told, by command.
var subcommands = sets(map[string]string{
	"ACL":      "CAT DELUSER DRYRUN GENPASS GETUSER LIST LOAD LOG SAVE SETUSER USERS WHOAMI",
	"CLIENT":   "CACHING GETNAME GETREDIR ID INFO KILL LIST NO-EVICT NO-TOUCH PAUSE REPLY SETINFO SETNAME TRACKING TRACKINGINFO UNBLOCK UNPAUSE",
	"CLUSTER":  "ADDSLOTS COUNTKEYSINSLOT FAILOVER FORGET GETKEYSINSLOT INFO KEYSLOT LINKS MEET MYID NODES REPLICAS REPLICATE RESET SETSLOT SHARDS SLOTS",
	"COMMAND":  "COUNT DOCS GETKEYS INFO LIST",
	"CONFIG":   "GET RESETSTAT REWRITE SET",
	"FUNCTION": "DELETE DUMP FLUSH KILL LIST LOAD RESTORE STATS",
	"LATENCY":  "DOCTOR GRAPH HISTOGRAM HISTORY LATEST RESET",
	"MEMORY":   "DOCTOR MALLOC-STATS PURGE STATS USAGE",
	"MODULE":   "LIST LOAD LOADEX UNLOAD",
	"OBJECT":   "ENCODING FREQ IDLETIME REFCOUNT",
	"PUBSUB":   "CHANNELS NUMPAT NUMSUB SHARDCHANNELS SHARDNUMSUB",
	"SCRIPT":   "DEBUG EXISTS FLUSH KILL LOAD",
	"SENTINEL": "CKQUORUM GET-MASTER-ADDR-BY-NAME MASTER MASTERS REPLICAS SENTINELS SLAVES",
	"SLOWLOG":  "GET LEN RESET",
	"XGROUP":   "CREATE CREATECONSUMER DELCONSUMER DESTROY SETID",
	"XINFO":    "CONSUMERS GROUPS STREAM",
})

// usual are commands by which a connection is recognised on any port.
var usual = set("APPEND AUTH BLPOP BRPOP CLIENT CLUSTER COMMAND CONFIG DBSIZE DECR DEL DISCARD ECHO EVAL EVALSHA EXEC EXISTS EXPIRE FLUSHALL FLUSHDB GET GETDEL GETEX GETSET HDEL HELLO HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HMSET HSCAN HSET HSETNX HVALS INCR INCRBY INFO KEYS LLEN LPOP LPUSH LRANGE LREM LTRIM MGET MSET MULTI PERSIST PEXPIRE PING PSETEX PSUBSCRIBE PTTL PUBLISH READONLY RENAME ROLE RPOP RPUSH SADD SCAN SCARD SCRIPT SDIFF SELECT SENTINEL SET SETEX SETNX SINTER SISMEMBER SMEMBERS SPOP SREM SSCAN STRLEN SUBSCRIBE SUNION TIME TTL TYPE UNLINK UNSUBSCRIBE UNWATCH WATCH XACK XADD XRANGE XREAD XREADGROUP ZADD ZCARD ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE ZRANK ZREM ZREVRANGE ZSCORE")

// set knows each word by itself, so that the same text is shared.
func set(words string) map[string]string {
	m := make(map[string]string)
	for word := range strings.FieldsSeq(words) {
		m[word] = word
	}
	return m
}

// sets are "COMMAND SUB" by "SUB", by "COMMAND".
func sets(lists map[string]string) map[string]map[string]string {
	all := make(map[string]map[string]string)
	for name, list := range lists {
		all[name] = set(list)
		for word := range all[name] {
			all[name][word] = name + " " + word
		}
	}
	return all
}

// maxName is longer than any command's name.
const maxName = 24

// nameOf is a command's name in upper case; "?" if it could be a renamed one.
func nameOf(word []byte) string {
	if len(word) == 0 || len(word) > maxName {
		return "?"
	}
	var upper [maxName]byte
	for i, c := range word {
		switch {
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		case 'A' <= c && c <= 'Z', c == '.', c == '_', c == '-':
		default:
			return "?"
		}
		upper[i] = c
	}
	name := upper[:len(word)]
	if known, ok := usual[string(name)]; ok {
		return known
	}
	return string(name)
}

// withSubcommand adds the subcommand to a command's name, if both are known.
func withSubcommand(name string, word []byte) string {
	if list, ok := subcommands[name]; ok {
		if both, ok := list[string(bytes.ToUpper(word))]; ok {
			return both
		}
	}
	return name
}

// recognise tells a usual command on any port, and what could be a reply or another
// command on a usual one.
func recognise(first []byte) capture.Recognition {
	name, ok := firstWord(first)
	if ok {
		if _, ok := usual[name]; ok {
			return capture.ByClient
		}
		return capture.Perhaps
	}
	line, _, whole := bytes.Cut(first, []byte("\r\n"))
	if len(line) == 0 {
		return capture.NotIt
	}
	switch line[0] {
	case '+', '-':
		return capture.Perhaps
	case '$', '*', ':', '%', '~', '>':
		if _, ok := number(line); ok || !whole && len(line) == 1 {
			return capture.Perhaps
		}
		return capture.NotIt
	}
	if _, ok := usual[nameOf(bytes.SplitN(line, []byte(" "), 2)[0])]; ok && whole {
		return capture.Perhaps
	}
	return capture.NotIt
}

// looksLikeCommand says whether a command begins where data does.
func looksLikeCommand(data []byte) bool {
	_, ok := firstWord(data[:min(len(data), maxLine)])
	return ok
}

// firstWord is the name of the command in an array of bulks, as far as it is there.
func firstWord(data []byte) (name string, ok bool) {
	array, rest, ok := bytes.Cut(data, []byte("\r\n"))
	if n, valid := number(array); !ok || !valid || array[0] != '*' || n < 1 || n > maxArguments {
		return "", false
	}
	bulk, rest, ok := bytes.Cut(rest, []byte("\r\n"))
	n, valid := number(bulk)
	if !ok || !valid || bulk[0] != '$' || n < 1 || n > maxName || int64(len(rest)) < n {
		return "", false
	}
	name = nameOf(rest[:n])
	return name, name != "?"
}
