package governor

import "os"

// FLYBALL_PATH=actor sends every call through the actor, also those that the fast
// path would take: CI runs the tests of this package both ways.
func init() { actorOnly = os.Getenv("FLYBALL_PATH") == "actor" }
