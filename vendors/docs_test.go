package vendors

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/limiter"
)

// constructors are the exported functions that return an Adapter or a limit, and
// their comments.
func constructors(t *testing.T) (adapters, limits map[string]string) {
	adapters, limits = map[string]string{}, map[string]string{}
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := goparser.ParseFile(token.NewFileSet(), name, nil, goparser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			switch result := f.Type.Results.List[0].Type.(type) {
			case *ast.Ident:
				if result.Name == "Adapter" {
					adapters[f.Name.Name] = f.Doc.Text()
				}
			case *ast.SelectorExpr:
				if result.Sel.Name == "QuotaConfig" || result.Sel.Name == "ConcurrencyConfig" {
					limits[f.Name.Name] = f.Doc.Text()
				}
			}
		}
	}
	return adapters, limits
}

func TestEveryAdapterIsDocumented(t *testing.T) {
	all, limits := constructors(t)
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	page, doc := read("../docs/vendors.md"), read("doc.go")
	conformance := read("conformance_test.go")
	scopes := scopesOf(page)
	for name, comment := range all {
		if !strings.Contains(page, "| `vendors."+name+"` |") {
			t.Errorf("docs/vendors.md has no row for %s", name)
		}
		if !strings.Contains(doc, "["+name+"]") {
			t.Errorf("doc.go does not name %s", name)
		}
		if !strings.Contains(strings.ReplaceAll(comment, "\n", " "), "Evidence, read 2026-") {
			t.Errorf("the comment of %s cites no evidence", name)
		}
		says := strings.ToLower(strings.Join(strings.Fields(comment), " "))
		if !strings.Contains(says, "one governor for each ") {
			t.Errorf("the comment of %s says not what to use one governor for", name)
		}
		for i, scope := range []string{"tenant", "bucket"} {
			if scopes[name][i] != "" && !strings.Contains(says, scope) {
				t.Errorf("the comment of %s says not what to use as %s, docs/vendors.md: %s", name, scope, scopes[name][i])
			}
		}
		if !strings.Contains(conformance, " "+name+",\n") {
			t.Errorf("%s is held to no cases", name)
		}
	}
	for name, comment := range limits {
		if !strings.Contains(page, "`vendors."+name+"`") {
			t.Errorf("docs/vendors.md lacks %s", name)
		}
		if _, listed := documentedLimits[name]; !listed && documentedAtOnce[name].Limit == 0 {
			t.Errorf("the limit of %s is not tested", name)
		}
		comment = strings.ReplaceAll(comment, "\n", " ")
		if !strings.Contains(comment, "per host") && !strings.Contains(comment, "per tenant") && !strings.Contains(comment, "per bucket") && !strings.Contains(comment, "is GitHubPrimary") && !strings.Contains(comment, "the like budget") {
			t.Errorf("the comment of %s says not whose it is", name)
		}
	}
	if n := strings.Count(page, "\n| "); n != len(all)+1 {
		t.Errorf("docs/vendors.md has %d rows for %d adapters", n-1, len(all))
	}
	if tested := len(documentedLimits) + len(documentedAtOnce); len(limits) != tested {
		t.Errorf("%d limits, %d tested", len(limits), tested)
	}
}

// scopesOf are the tenant and the bucket of each adapter in the table of a page.
func scopesOf(page string) map[string][2]string {
	all := map[string][2]string{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == 9 {
			name := strings.TrimPrefix(strings.Trim(cells[2], " `"), "vendors.")
			all[name] = [2]string{strings.TrimSpace(cells[5]), strings.TrimSpace(cells[6])}
		}
	}
	return all
}

// documentedAtOnce are the published numbers of calls at once.
var documentedAtOnce = map[string]limiter.ConcurrencyConfig{"GitHubConcurrency": GitHubConcurrency()}

func TestDocumentedLimitsOfCallsAtOnce(t *testing.T) {
	if n := documentedAtOnce["GitHubConcurrency"].Limit; n != 100 {
		t.Errorf("GitHubConcurrency: %d", n)
	}
	for name, cfg := range documentedAtOnce {
		if _, err := limiter.NewConcurrency(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// documentedLimits are the published numbers, once more.
var documentedLimits = map[string]struct {
	quota limiter.QuotaConfig
	limit int
	per   string
}{
	"AzureReads":                {AzureReads(), 250, "10s"},
	"AzureWrites":               {AzureWrites(), 200, "20s"},
	"CloudflareAddress":         {CloudflareAddress(), 200, "1s"},
	"CloudflareUser":            {CloudflareUser(), 1200, "5m0s"},
	"DiscordGlobal":             {DiscordGlobal(), 50, "1s"},
	"GitHubActions":             {GitHubActions(), 1000, "1h0m0s"},
	"GitHubAnonymous":           {GitHubAnonymous(), 60, "1h0m0s"},
	"GitHubCodeSearch":          {GitHubCodeSearch(), 10, "1m0s"},
	"GitHubContent":             {GitHubContent(), 80, "1m0s"},
	"GitHubContentHour":         {GitHubContentHour(), 500, "1h0m0s"},
	"GitHubGraphQLPoints":       {GitHubGraphQLPoints(), 2000, "1m0s"},
	"HubSpotDaily":              {HubSpotDaily(), 250000, "24h0m0s"},
	"StripePaymentIntent":       {StripePaymentIntent(), 1000, "1h0m0s"},
	"MetaAdsManagementLimited":  {MetaAdsManagementLimited(10), 700, "1h0m0s"},
	"MetaAdsInsightsLimited":    {MetaAdsInsightsLimited(10), 4600, "1h0m0s"},
	"MetaCustomAudience":        {MetaCustomAudience(10), 190400, "1h0m0s"},
	"MetaCustomAudienceLimited": {MetaCustomAudienceLimited(10), 5400, "1h0m0s"},
	"GitHubEnterprise":          {GitHubEnterprise(), 15000, "1h0m0s"},
	"GitHubPoints":              {GitHubPoints(), 900, "1m0s"},
	"GitHubPrimary":             {GitHubPrimary(), 5000, "1h0m0s"},
	"GitHubSearch":              {GitHubSearch(), 30, "1m0s"},
	"GitLabAnonymous":           {GitLabAnonymous(), 3600, "1h0m0s"},
	"GitLabUser":                {GitLabUser(), 7200, "1h0m0s"},
	"GoogleAdsBasic":            {GoogleAdsBasic(), 15000, "24h0m0s"},
	"GoogleAdsExplorer":         {GoogleAdsExplorer(), 2880, "24h0m0s"},
	"GoogleAdsPlanning":         {GoogleAdsPlanning(), 1, "1s"},
	"HubSpotRequests":           {HubSpotRequests(), 100, "10s"},
	"HubSpotSearch":             {HubSpotSearch(), 5, "1s"},
	"JiraIssueWrites":           {JiraIssueWrites(), 20, "2s"},
	"JiraIssueWritesLong":       {JiraIssueWritesLong(), 100, "30s"},
	"MetaAdsInsights":           {MetaAdsInsights(10), 194000, "1h0m0s"},
	"MetaAdsManagement":         {MetaAdsManagement(10), 100400, "1h0m0s"},
	"MetaMutations":             {MetaMutations(), 100, "1s"},
	"MetaPlatform":              {MetaPlatform(7), 1400, "1h0m0s"},
	"NotionRequests":            {NotionRequests(), 3, "1s"},
	"SalesforceRequests":        {SalesforceRequests(25000), 125000, "24h0m0s"},
	"ShopifyCalls":              {ShopifyCalls(), 40, "20s"},
	"ShopifyPoints":             {ShopifyPoints(), 1000, "10s"},
	"SlackMessages":             {SlackMessages(), 1, "1s"},
	"SlackTier":                 {SlackTier(3), 50, "1m0s"},
	"StripeEndpoint":            {StripeEndpoint(), 25, "1s"},
	"StripeLive":                {StripeLive(), 100, "1s"},
	"StripeSandbox":             {StripeSandbox(), 25, "1s"},
	"TikTokOpenAPIRequests":     {TikTokOpenAPIRequests(), 600, "1m0s"},
	"ZendeskExports":            {ZendeskExports(), 10, "1m0s"},
}

func TestDocumentedLimits(t *testing.T) {
	for name, tc := range documentedLimits {
		if tc.quota.Limit != tc.limit || tc.quota.Per.String() != tc.per {
			t.Errorf("%s: %+v", name, tc.quota)
		}
		if _, err := limiter.NewQuota(tc.quota); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{-1 << 31, -1, 0, 1, 1<<31 - 1} {
		for _, q := range []limiter.QuotaConfig{MetaAdsInsights(n), MetaAdsManagement(n), MetaPlatform(n), MetaAdsInsightsLimited(n), MetaAdsManagementLimited(n),
			MetaCustomAudience(n), MetaCustomAudienceLimited(n), SalesforceRequests(n), SlackTier(n)} {
			if _, err := limiter.NewQuota(q); err != nil || q.Limit > 1<<31-1 {
				t.Errorf("%d: %+v: %v", n, q, err)
			}
		}
	}
	if most := MetaCustomAudience(1 << 20).Limit; most != 700_000 {
		t.Errorf("%d calls for custom audiences, want 700,000 at most", most)
	}
	tiers := []int{SlackTier(0).Limit, SlackTier(1).Limit, SlackTier(2).Limit, SlackTier(4).Limit, SlackTier(5).Limit}
	if want := []int{1, 1, 20, 100, 100}; !reflect.DeepEqual(tiers, want) {
		t.Errorf("tiers %v", tiers)
	}
}
