package sim

// Trial is one run: a service, a way to balance, and luck.
type Trial struct {
	Service   *Service
	NewPolicy NewPolicy
	// Weigher is nil for equal weights.
	Weigher *Weigher
	Seed    uint64
	// Steps is how many [Result.Series] has.
	Steps int
	// Progress is called now and then with the part that is done, 0..1, if not nil.
	Progress func(part float64)
}
