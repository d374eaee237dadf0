package vendortest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// OpenAIConfig configures an [OpenAI]. The zero config has 500 requests and 30,000
// tokens per minute, which is what the lowest paid tier is given for common models;
// the numbers of an account are in its settings.
type OpenAIConfig struct {
	// Requests and Tokens are the limits of each key and model. nil: buckets of 500
	// requests and 30,000 tokens that a minute refills.
	Requests, Tokens *Quota

	// Scale multiplies the times of limits that are nil; 0: 1.
	Scale float64

	// MaxKeys bounds the pairs of key and model that are counted apart; 0: 100,000.
	MaxKeys int

	// Models are the models that there are; nil: any.
	Models []string

	// Budget is how many tokens each key may use in all, before insufficient_quota;
	// 0: no end.
	Budget int

	// Answer is the text of an answer. It is called from many goroutines at once;
	// an error is answered as the request's fault. nil: "Hello!".
	Answer func(model, prompt string) (string, error)
}

// OpenAI is a stand-in for OpenAI's API, and those of its shape, for tests:
//
//	POST /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses
//	GET  /v1/models
//
// A request costs the tokens that it may need at most: the larger one of its
// max_tokens and a quarter of its characters. Answers have the headers
// X-RateLimit-Limit, -Remaining and -Reset, each for -Requests and -Tokens; a reset
// is when the bucket is full again, 6m0s. A refusal is 429 rate_limit_exceeded, with
// Retry-After and Retry-After-Ms until there is room. A refused request counts as
// one, so that who sends again and again stays refused. When the budget is used up
// it is 429 insufficient_quota, which no waiting mends.
//
// It is an http.Handler for httptest, safe for simultaneous use, and starts
// nothing. What it saw of a client's manners is in Totals.
type OpenAI struct {
	cfg              OpenAIConfig
	requests, tokens *Keyed

	// mu guards what follows. Nothing is called while it is held.
	mu    sync.Mutex
	spent map[string]int // tokens by key, when there is a budget
	ids   int64
}

// OpenAITotals is what an OpenAI saw, by limit, over all keys and models.
type OpenAITotals struct {
	Requests Totals `json:"requests"`
	Tokens   Totals `json:"tokens"` // of what the requests let in
}

// NewOpenAI returns a server without any call made to it. It returns an error that
// names the field for a quota that cannot be or a number out of range.
func NewOpenAI(cfg OpenAIConfig) (*OpenAI, error) {
	t := newTariff(cfg.Scale, cfg.MaxKeys)
	t.atLeast("Budget", cfg.Budget, 0)
	o := &OpenAI{
		cfg: cfg, spent: make(map[string]int),
		requests: t.keyed("Requests", cfg.Requests, Quota{Rate: 500.0 / 60, Burst: 500, Lenient: true, Counted: true}),
		tokens:   t.keyed("Tokens", cfg.Tokens, Quota{Rate: 30_000.0 / 60, Burst: 30_000, Lenient: true}),
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	if o.cfg.Answer == nil {
		o.cfg.Answer = func(string, string) (string, error) { return "Hello!", nil }
	}
	return o, nil
}

// Totals returns the counts so far.
func (o *OpenAI) Totals() OpenAITotals { return OpenAITotals{o.requests.Totals(), o.tokens.Totals()} }

// Key returns the counts of one Authorization header and model.
func (o *OpenAI) Key(authorization, model string) OpenAITotals {
	limit := openAIKey(authorization, model)
	return OpenAITotals{o.requests.Key(limit), o.tokens.Key(limit)}
}

func openAIKey(authorization, model string) string { return short(authorization) + "\x00" + model }

// ServeHTTP implements http.Handler.
func (o *OpenAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := http.MethodPost
	switch r.URL.Path {
	case "/v1/models":
		want = http.MethodGet
	case "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses":
	default:
		o.fault(w, http.StatusNotFound, "", fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path))
		return
	}
	key := r.Header.Get("Authorization")
	switch {
	case r.Method != want:
		o.fault(w, http.StatusMethodNotAllowed, "method_not_supported", "Not allowed to "+r.Method+" on "+r.URL.Path+".")
	case key == "":
		o.fault(w, http.StatusUnauthorized, "", "You didn't provide an API key.")
	case want == http.MethodGet:
		o.list(w)
	default:
		o.serve(w, r, key)
	}
}

func (o *OpenAI) serve(w http.ResponseWriter, r *http.Request, key string) {
	c, err := o.read(w, r)
	if err != nil {
		o.fault(w, http.StatusBadRequest, "", err.Error())
		return
	}
	if o.cfg.Models != nil && !slices.Contains(o.cfg.Models, c.model) {
		o.fault(w, http.StatusNotFound, "model_not_found", "The model "+strconv.Quote(c.model)+" does not exist or you do not have access to it.")
		return
	}
	c.key, c.limit = short(key), openAIKey(key, c.model)
	if !o.judge(w, c) {
		return
	}
	text, err := o.cfg.Answer(c.model, c.prompt)
	if err != nil {
		o.fault(w, http.StatusBadRequest, "", err.Error())
		return
	}
	reply(w, http.StatusOK, o.answer(c, r.URL.Path, text))
}

// judge asks the limits and writes their headers. When it reports false it has
// written the refusal.
func (o *OpenAI) judge(w http.ResponseWriter, c *openAICall) bool {
	now := time.Now()
	what, unit, asked := o.requests, "requests", 1
	v := what.Admit(c.limit, now)
	if v.Accepted {
		what, unit, asked = o.tokens, "tokens", c.tokens
		v = what.AdmitN(c.limit, now, c.tokens)
	}
	for unit, k := range map[string]*Keyed{"Requests": o.requests, "Tokens": o.tokens} {
		u := k.Usage(c.limit, now)
		w.Header().Set("X-RateLimit-Limit-"+unit, strconv.Itoa(u.Limit))
		w.Header().Set("X-RateLimit-Remaining-"+unit, strconv.Itoa(max(0, u.Limit-u.Used)))
		w.Header().Set("X-RateLimit-Reset-"+unit, ceil(u.Full, time.Millisecond).String())
	}
	if !v.Accepted {
		o.refuse(w, c, unit, asked, what.Usage(c.limit, now), v)
		return false
	}
	if !o.pay(c) {
		what.Refund(c.limit, now, c.tokens)
		replyOpenAI(w, http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota",
			"You exceeded your current quota, please check your plan and billing details.")
		return false
	}
	return true
}

func (o *OpenAI) refuse(w http.ResponseWriter, c *openAICall, unit string, asked int, u Usage, v Verdict) {
	what := fmt.Sprintf("for %s on %s per min: Limit %d, Used %d, Requested %d.", strconv.Quote(c.model), unit, u.Limit, min(u.Used, u.Limit), asked)
	if v.TooLarge {
		replyOpenAI(w, http.StatusTooManyRequests, unit, "rate_limit_exceeded",
			"Request too large "+what+" The input or output tokens must be reduced in order to run successfully.")
		return
	}
	d := ceil(v.Delay, time.Millisecond)
	w.Header().Set("Retry-After-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	w.Header().Set("Retry-After", wholeSeconds(d))
	replyOpenAI(w, http.StatusTooManyRequests, unit, "rate_limit_exceeded", "Rate limit reached "+what+" Please try again in "+d.String()+".")
}

// pay takes a call's tokens off its key's budget.
func (o *OpenAI) pay(c *openAICall) bool {
	if o.cfg.Budget == 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := c.key
	if _, known := o.spent[key]; !known && len(o.spent) >= cmp.Or(o.cfg.MaxKeys, maxKeys) {
		key = "" // all further ones share one budget
	}
	if o.spent[key]+c.tokens > o.cfg.Budget {
		return false
	}
	o.spent[key] += c.tokens
	return true
}

// openAICall is one request.
type openAICall struct {
	key, limit    string
	model, prompt string
	tokens        int
}

func (o *OpenAI) read(w http.ResponseWriter, r *http.Request) (*openAICall, error) {
	var in struct {
		Model     string `json:"model"`
		Prompt    string `json:"prompt"`
		Input     any    `json:"input"`
		Max       int    `json:"max_tokens"`
		MaxNew    int    `json:"max_completion_tokens"`
		MaxOutput int    `json:"max_output_tokens"`
		Messages  []struct {
			Content any `json:"content"`
		} `json:"messages"`
	}
	if err := decode(w, r, &in); err != nil {
		return nil, fmt.Errorf("we could not parse the JSON body of your request: %w", err)
	}
	if in.Model == "" || len(in.Model) > 100 {
		return nil, errors.New("you must provide a model parameter")
	}
	var text strings.Builder
	text.WriteString(in.Prompt)
	if s, ok := in.Input.(string); ok {
		text.WriteString(s)
	}
	for _, m := range in.Messages {
		if s, ok := m.Content.(string); ok {
			text.WriteString(s)
		}
	}
	c := &openAICall{model: in.Model, prompt: text.String()}
	c.tokens = max(1, (text.Len()+3)/4, in.Max, in.MaxNew, in.MaxOutput)
	return c, nil
}
