package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func env(kv ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == key {
				return kv[i+1]
			}
		}
		return ""
	}
}

var credentials = []string{"GOOGLE_ADS_CLIENT_ID", "id", "GOOGLE_ADS_CLIENT_SECRET", "secret", "GOOGLE_ADS_REFRESH_TOKEN", "refresh",
	"GOOGLE_ADS_DEVELOPER_TOKEN", "dev", "GOOGLE_ADS_LOGIN_CUSTOMER_ID", "123-456-7890"}

func TestDefaults(t *testing.T) {
	o, err := parse(nil, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if o.model.Accounts != 2000 || o.workers != 16 || o.startRate != 100 || o.maxCalls != 0 || !o.plaintext || o.naiveLimit != 8*time.Second ||
		!slices.Equal(o.modes, allModes) || !slices.Equal(o.order(), allModes) {
		t.Errorf("%+v", o)
	}
	q := o.server.Quota
	if q.Rate != 250 || q.Burst != 20 || q.Pause != 150*time.Millisecond || q.MaxPause != 9*time.Second || q.Grace != 15*time.Millisecond || o.server.Latency != 20*time.Millisecond {
		t.Errorf("%+v", q)
	}
}

// Credentials of the environment are not shown to the server in this process.
func TestEnvironmentIsForOtherServers(t *testing.T) {
	o, err := parse(nil, env(credentials...))
	if err != nil {
		t.Fatal(err)
	}
	if o.creds.RefreshToken == "refresh" || o.creds.ClientID == "id" || o.login != "" {
		t.Errorf("%+v", o.creds)
	}
	if o, err = parse([]string{"-refresh-token", "mine"}, env(credentials...)); err != nil || o.creds.RefreshToken != "mine" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestRealEndpoint(t *testing.T) {
	const google = "googleads.googleapis.com:443"
	o, err := parse(nil, env(append(credentials, "GOOGLE_ADS_ENDPOINT", google)...))
	if err != nil {
		t.Fatal(err)
	}
	if o.endpoint != google || o.plaintext || o.maxCalls != 50 || o.creds.TokenURL != "https://oauth2.googleapis.com/token" || o.creds.ClientID != "id" ||
		o.creds.ClientSecret != "secret" || o.creds.RefreshToken != "refresh" || o.developerToken != "dev" || o.login != "1234567890" {
		t.Errorf("%+v", o)
	}
	if !slices.Equal(o.modes, []mode{governed}) || o.quotaKnown {
		t.Errorf("modes %v: the quota is not known and a naive client not wanted", o.modes)
	}
	o, err = parse([]string{"-endpoint", google, "-qps", "5", "-max-calls", "7"}, env(credentials...))
	if err != nil || !slices.Equal(o.modes, []mode{governed, configured}) || o.maxCalls != 7 {
		t.Errorf("%v, %v", o.modes, err)
	}
	for _, args := range [][]string{{"-mode", "naive"}, {"-mode", "governed,naive"}, {"-mode", "configured"}, {"-plaintext"}} {
		if _, err := parse(append(args, "-endpoint", google), env(credentials...)); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
	if _, err := parse([]string{"-endpoint", google}, noEnv); err == nil {
		t.Error("no credentials, no error")
	}
	if o, err := parse([]string{"-endpoint", google, "-access-token", "x"}, noEnv); err != nil || o.accessToken != "x" {
		t.Error(err)
	}
}

func TestLoopbackEndpoint(t *testing.T) {
	for _, host := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "127.8.9.1:1"} {
		o, err := parse([]string{"-endpoint", host}, noEnv)
		if err != nil {
			t.Fatal(err)
		}
		if !o.plaintext || o.creds.TokenURL != "http://"+host+"/token" || o.creds.RefreshToken == "" || o.maxCalls != 0 || len(o.modes) != 3 {
			t.Errorf("%s: %+v", host, o)
		}
		if last := o.order()[2]; last != naive {
			t.Errorf("%s: %s comes last, and finds the pauses of the naive mode", host, last)
		}
	}
	if o, err := parse([]string{"-endpoint", "127.0.0.1:1"}, env(credentials...)); err != nil || o.creds.RefreshToken != "refresh" {
		t.Errorf("%+v, %v", o.creds, err)
	}
}

func TestQuotaPresets(t *testing.T) {
	o, err := parse([]string{"-quota", "explorer", "-burst", "7"}, noEnv)
	if err != nil || o.server.Quota.Rate != 10 || o.server.Quota.Burst != 7 || o.server.DailyOps != 2880 || o.server.Quota.Pause != 15*time.Second {
		t.Errorf("%+v, %v", o.server, err)
	}
	o, err = parse([]string{"-quota", "qps=9, burst=3"}, noEnv)
	if err != nil || o.server.Quota.Rate != 9 || o.server.Quota.Burst != 3 || o.server.Quota.Pause != 150*time.Millisecond {
		t.Errorf("%+v, %v", o.server, err)
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range []string{
		"-nonsense", "word", "-mode fast", "-mode naive,", "-report weekly", "-workers 0", "-workers -1", "-workers 99999", "-workers x", "-conns 0",
		"-start-rate 0", "-start-rate NaN", "-start-rate +Inf", "-max-wait 0", "-naive-limit -1s", "-max-calls -2", "-progress loud", "-api-version 25", "-api-version v",
		"-login-customer-id 12", "-customers 1", "-customers 1234567890,", "-endpoint host", "-endpoint 127.0.0.1:1 -ca /nonexistent",
		"-accounts 0", "-accounts -5", "-qps 0", "-qps NaN", "-qps -1", "-qps +Inf", "-burst 0", "-cooldown -1s", "-cooldown 1m -cooldown-max 1s", "-factor 0.5", "-quota odd", "-quota mode=naive", "-quota qps=x",
		"-latency -1s", "-batch -1", "-token-ttl -1s", "-fault-rate 2", "-fault-rate NaN", "-daily-ops -1", "-account-qps -1",
	} {
		code, out, errs := program(t, strings.Fields(args)...)
		if code == exitOK || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "googleads: ") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
	if code, out, errs := program(t, "-help"); code != exitOK || errs != "" || !strings.Contains(out, "-endpoint") {
		t.Errorf("-help: exit %d\n%s%s", code, out, errs)
	}
}
