// Package archtest holds the tree to what docs/design.md promises of it. It has
// tests only, and they read the tree as it is on disk:
//
//   - imports point down the table in layers_test.go, and every package is in it;
//   - an engine has no client, clock, logger or file in it;
//   - every package has a doc comment;
//   - links in the documents lead somewhere, and the make targets they name exist.
//
// Start with the table in layers_test.go: it is the map of the repository. Add a
// row there for a new package.
package archtest
