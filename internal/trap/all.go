package trap

// All are the rules, each new: a rule holds what it saw of one capture.
func All() []Rule {
	return []Rule{
		newCredentialRefresh(),
		newCredentialsPerClient(),
		newHopLimit(),
		newDNSSearch(),
		newDNSUncached(),
		newDNSConntrack(),
		newDNSResolverCap(),
		newDNSSlow(),
		newConnectionPerRequest(),
		newTLSPerRequest(),
		newNagle(),
		newRetransmitTimeout(),
		newZeroWindow(),
		newSlowStart(),
		newSYNLoss(),
		newIdleDrop(),
		newKeepaliveRace(),
		newBlackHole(),
		newSNATExhaustion(),
		newStaleEndpoint(),
		newHairpin(),
		newMetadataSlow(),
		newCPUThrottling(),
		newNPlusOne(),
		newConnectionPinning(),
	}
}
