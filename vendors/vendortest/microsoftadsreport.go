package vendortest

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// submit takes a report on.
func (m *MicrosoftAds) submit(w http.ResponseWriter, user string, now time.Time) {
	id, ok := m.begin(user, now)
	if !ok {
		microsoftFault(w, http.StatusBadRequest, "ApiFaultDetail", 207, "ConcurrentRequestOverLimit",
			"You have exceeded the number of report requests that may be pending.")
		return
	}
	reply(w, http.StatusOK, map[string]string{"ReportRequestId": id})
}

func (m *MicrosoftAds) begin(user string, now time.Time) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pending := m.pending[user]
	for len(pending) > 0 && !pending[0].After(now) {
		pending = pending[1:]
	}
	m.pending[user] = pending
	if len(pending) >= m.cfg.Reports || len(m.reports) >= m.cfg.MaxKeys && !m.forgetLocked(now) {
		if m.over++; len(pending) == 0 {
			delete(m.pending, user)
		}
		return "", false
	}
	id, done := m.nextLocked(), now.Add(m.cfg.Preparing)
	m.pending[user] = append(pending, done)
	m.reports[id] = report{user, done}
	return id, true
}

// forgetLocked makes room: reports are kept for a day. Users without any that is
// pending are forgotten with them.
func (m *MicrosoftAds) forgetLocked(now time.Time) bool {
	for id, r := range m.reports {
		if now.Sub(r.done) >= 24*time.Hour {
			delete(m.reports, id)
		}
	}
	for user, pending := range m.pending {
		if len(pending) == 0 || !pending[len(pending)-1].After(now) {
			delete(m.pending, user)
		}
	}
	return len(m.reports) < m.cfg.MaxKeys
}

// poll tells how far a report is.
func (m *MicrosoftAds) poll(w http.ResponseWriter, r *http.Request, in []byte, user string, now time.Time) {
	var q struct {
		ID string `json:"ReportRequestId"`
	}
	err := json.Unmarshal(in, &q)
	m.mu.Lock()
	rep, ok := m.reports[q.ID]
	m.mu.Unlock()
	switch {
	case err != nil || !ok || rep.user != user:
		microsoftFault(w, http.StatusBadRequest, "ApiFaultDetail", 2100, "ReportingServiceInvalidReportId", "The report request ID is not valid.")
	case now.Before(rep.done):
		reply(w, http.StatusOK, microsoftStatus("Pending", nil))
	default:
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		reply(w, http.StatusOK, microsoftStatus("Success", scheme+"://"+r.Host+"/Reporting/download/"+q.ID))
	}
}

func microsoftStatus(status string, url any) any {
	return map[string]any{"ReportRequestStatus": map[string]any{"Status": status, "ReportDownloadUrl": url}}
}

func cutDownload(r *http.Request) (id string, ok bool) {
	id, ok = strings.CutPrefix(r.URL.Path, "/Reporting/download/")
	return id, ok && r.Method == http.MethodGet
}

// download answers with a finished report. It is on another host in life, and
// counts nowhere.
func (m *MicrosoftAds) download(w http.ResponseWriter, id string) {
	m.mu.Lock()
	rep, ok := m.reports[id]
	m.mu.Unlock()
	if !ok || time.Now().Before(rep.done) {
		http.Error(w, "The specified blob does not exist.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/csv")
	_, _ = w.Write(m.cfg.Report(id)) // the client may have gone
}
