package vendortest

import (
	"net/http"
	"strconv"
)

// answer is the body of a success, in the form of its path.
func (o *OpenAI) answer(c *openAICall, path, text string) any {
	in, out := (len(c.prompt)+3)/4, (len(text)+3)/4
	o.mu.Lock()
	o.ids++
	id := "vendortest-" + strconv.FormatInt(o.ids, 10)
	o.mu.Unlock()
	body := map[string]any{
		"id": id, "model": c.model, "created": 0,
		"usage": map[string]int{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out},
	}
	switch path {
	case "/v1/embeddings":
		body["object"] = "list"
		body["data"] = []any{map[string]any{"object": "embedding", "index": 0, "embedding": []float64{0, 1}}}
	case "/v1/responses":
		body["object"], body["status"] = "response", "completed"
		body["usage"] = map[string]int{"input_tokens": in, "output_tokens": out, "total_tokens": in + out}
		body["output"] = []any{map[string]any{"type": "message", "role": "assistant",
			"content": []any{map[string]string{"type": "output_text", "text": text}}}}
	case "/v1/completions":
		body["object"] = "text_completion"
		body["choices"] = []any{map[string]any{"index": 0, "text": text, "finish_reason": "stop"}}
	default:
		body["object"] = "chat.completion"
		body["choices"] = []any{map[string]any{"index": 0, "finish_reason": "stop",
			"message": map[string]string{"role": "assistant", "content": text}}}
	}
	return body
}

func (o *OpenAI) list(w http.ResponseWriter) {
	models := []any{}
	for _, m := range o.cfg.Models {
		models = append(models, map[string]string{"id": m, "object": "model", "owned_by": "vendortest"})
	}
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": models})
}

// fault answers a request that is at fault itself.
func (o *OpenAI) fault(w http.ResponseWriter, status int, code, text string) {
	replyOpenAI(w, status, "invalid_request_error", code, text)
}

func replyOpenAI(w http.ResponseWriter, status int, kind, code, text string) {
	e := map[string]any{"message": text, "type": kind, "param": nil, "code": nil}
	if code != "" {
		e["code"] = code
	}
	reply(w, status, map[string]any{"error": e})
}
