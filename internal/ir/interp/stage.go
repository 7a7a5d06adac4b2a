package interp

// Stage gives the modes of a state by the passes that made it, in order, each
// as often as it ran: barriers are explicit once ThreadSync has run for both
// kinds of shared memory, bounds once LegalizeSafeMemoryAccess has run.
func Stage(done []string) (SyncMode, BoundsMode) {
	sync, bounds := SyncImplied, BoundsImplied
	syncs := 0
	for _, p := range done {
		switch p {
		case "ThreadSync":
			if syncs++; syncs == 2 {
				sync = SyncExplicit
			}
		case "LegalizeSafeMemoryAccess":
			bounds = BoundsExplicit
		}
	}
	return sync, bounds
}
