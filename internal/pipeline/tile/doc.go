// Package tile holds the passes that turn operators on tiles into loops of
// threads: the layouts of shared and register tiles are inferred, then each
// operator is lowered by them.
package tile
