// Package fakeads is a Google Ads to test against: the gRPC protocol of the real
// API in front of invented accounts, with a quota that behaves as a strict
// vendor's does.
//
// What is Google's: messages, field numbers, methods, metadata, failures, error
// codes, the query language. What is a model: the numbers of the quota and the
// escalation of its pauses, which are those of package vendortest. What is
// invented: every account, campaign and metric, each a pure function of the
// seed, so that a report can be checked without having been kept.
package fakeads
