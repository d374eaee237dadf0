package adspb

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// published are fields and enum values as Google publishes them for v25. What the
// subset has must be here, number for number; ? marks a field with presence, []
// a repeated one, | one of a oneof.
const published = `
services.SearchGoogleAdsRequest: customer_id=1 query=2 page_token=3 page_size=4 validate_only=5 search_settings=10
services.SearchSettings: omit_results=1 return_summary_row=2 return_total_results_count=3
services.SearchGoogleAdsResponse: results[]=1 next_page_token=2 total_results_count=3 field_mask=5 summary_row=6 query_resource_consumption=8
services.SearchGoogleAdsStreamRequest: customer_id=1 query=2 summary_row_setting=3
services.SearchGoogleAdsStreamResponse: results[]=1 field_mask=2 summary_row=3 request_id=4 query_resource_consumption=6
services.GoogleAdsRow: customer=1 campaign=2 ad_group=3 metrics=4 campaign_budget=19 customer_client=70 segments=102
services.ListAccessibleCustomersRequest:
services.ListAccessibleCustomersResponse: resource_names[]=1
resources.Customer: resource_name=1 id?=19 descriptive_name?=20 currency_code?=21 time_zone?=22 manager?=27 test_account?=28 status=36
resources.CustomerClient: resource_name=1 client_customer?=12 hidden?=13 level?=14 time_zone?=15 test_account?=16 manager?=17 descriptive_name?=18 currency_code?=19 id?=20 status=22
resources.Campaign: resource_name=1 status=5 advertising_channel_type=9 name?=58 id?=59 campaign_budget?=62
resources.AdGroup: resource_name=1 status=5 id?=34 name?=35 campaign?=38 cpc_bid_micros?=39
resources.CampaignBudget: resource_name=1 id?=19 name?=20 amount_micros?=21
common.Metrics: clicks?=131 conversions_value?=165 conversions?=168 cost_micros?=169 ctr?=174 average_cpc?=204 impressions?=221 interactions?=223
common.Segments: device=1 ad_network_type=3 day_of_week=5 date?=79 hour?=88 month?=90 quarter?=128 week?=130 year?=131
common.Value: boolean_value|=1 int64_value|=2 float_value|=3 double_value|=4 string_value|=5
errors.GoogleAdsFailure: errors[]=1 request_id=2
errors.GoogleAdsError: error_code=1 message=2 trigger=3 location=4 details=5
errors.ErrorCode: request_error|=1 query_error|=5 authorization_error|=9 internal_error|=10 quota_error|=11 authentication_error|=17 date_error|=33 date_range_error|=34 header_error|=66 database_error|=67
errors.ErrorLocation: field_path_elements[]=2
errors.ErrorLocation.FieldPathElement: field_name=1 index?=3
errors.ErrorDetails: unpublished_error_code=1 quota_error_details=4
errors.QuotaErrorDetails: rate_scope=1 rate_name=2 retry_delay=3
errors.QuotaErrorDetails.QuotaRateScope: ACCOUNT=2 DEVELOPER=3
errors.QuotaErrorEnum.QuotaError: RESOURCE_EXHAUSTED=2 ACCESS_PROHIBITED=3 RESOURCE_TEMPORARILY_EXHAUSTED=4 EXCESSIVE_SHORT_TERM_QUERY_RESOURCE_CONSUMPTION=5 EXCESSIVE_LONG_TERM_QUERY_RESOURCE_CONSUMPTION=6 PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED=7
errors.QueryErrorEnum.QueryError: BAD_SYMBOL=2 BAD_OPERATOR=3 BAD_VALUE=4 BAD_NUMBER=5 STRING_NOT_TERMINATED=6 BAD_ESCAPE_SEQUENCE=7 PROHIBITED_NEWLINE_IN_STRING=8 UNEXPECTED_END_OF_QUERY=9 UNEXPECTED_INPUT=11 BAD_FIELD_NAME=12 EXPECTED_SELECT=13 EXPECTED_BY=14 BAD_LIMIT_VALUE=15 EXPECTED_REFERENCED_FIELD_IN_SELECT_CLAUSE=16 BAD_ENUM_CONSTANT=18 INVALID_VALUE_WITH_DURING_OPERATOR=22 LIMIT_VALUE_TOO_LOW=25 INVALID_VALUE_WITH_BETWEEN_OPERATOR=26 PROHIBITED_EMPTY_LIST_IN_CONDITION=28 EXPECTED_AND=30 UNRECOGNIZED_FIELD=32 OPERATOR_FIELD_MISMATCH=35 INVALID_DATE_FORMAT=38 EXPECTED_LIST=41 EXPECTED_FROM=44 BAD_RESOURCE_TYPE_IN_FROM_CLAUSE=45 PROHIBITED_RESOURCE_TYPE_IN_SELECT_CLAUSE=48 PROHIBITED_METRIC_IN_SELECT_OR_WHERE_CLAUSE=49 QUERY_ERROR=50 PROHIBITED_SEGMENT_IN_SELECT_OR_WHERE_CLAUSE=51 EXPECTED_FILTERS_ON_DATE_RANGE=55 PROHIBITED_RESOURCE_TYPE_IN_WHERE_CLAUSE=58 REQUESTED_METRICS_FOR_MANAGER=59 BAD_PARAMETER_NAME=61 BAD_PARAMETER_VALUE=62
errors.RequestErrorEnum.RequestError: INVALID_PAGE_TOKEN=7 REQUIRED_FIELD_MISSING=9 INVALID_CUSTOMER_ID=16 UNSUPPORTED_VERSION=38 PAGE_SIZE_NOT_SUPPORTED=40
errors.AuthenticationErrorEnum.AuthenticationError: AUTHENTICATION_ERROR=2 CUSTOMER_NOT_FOUND=8 OAUTH_TOKEN_INVALID=15 OAUTH_TOKEN_EXPIRED=16 OAUTH_TOKEN_HEADER_INVALID=19
errors.AuthorizationErrorEnum.AuthorizationError: USER_PERMISSION_DENIED=2 CUSTOMER_NOT_ENABLED=24 CLOUD_PROJECT_NOT_APPROVED_FOR_PRODUCTION=32
errors.InternalErrorEnum.InternalError: INTERNAL_ERROR=2 TRANSIENT_ERROR=4 DEADLINE_EXCEEDED=5
errors.HeaderErrorEnum.HeaderError: INVALID_LOGIN_CUSTOMER_ID=3
errors.DateErrorEnum.DateError:
errors.DateRangeErrorEnum.DateRangeError:
errors.DatabaseErrorEnum.DatabaseError:
enums.CampaignStatusEnum.CampaignStatus: ENABLED=2 PAUSED=3 REMOVED=4
enums.AdGroupStatusEnum.AdGroupStatus: ENABLED=2 PAUSED=3 REMOVED=4
enums.CustomerStatusEnum.CustomerStatus: ENABLED=2 CANCELED=3 SUSPENDED=4 CLOSED=5
enums.AdvertisingChannelTypeEnum.AdvertisingChannelType: SEARCH=2 DISPLAY=3 SHOPPING=4 HOTEL=5 VIDEO=6 MULTI_CHANNEL=7 LOCAL=8 SMART=9 PERFORMANCE_MAX=10 LOCAL_SERVICES=11 TRAVEL=13 DEMAND_GEN=14
enums.AdNetworkTypeEnum.AdNetworkType: SEARCH=2 SEARCH_PARTNERS=3 CONTENT=4 MIXED=7 YOUTUBE=8
enums.DayOfWeekEnum.DayOfWeek: MONDAY=2 TUESDAY=3 WEDNESDAY=4 THURSDAY=5 FRIDAY=6 SATURDAY=7 SUNDAY=8
enums.DeviceEnum.Device: MOBILE=2 TABLET=3 DESKTOP=4 OTHER=5 CONNECTED_TV=6
enums.SummaryRowSettingEnum.SummaryRowSetting: NO_SUMMARY_ROW=2 SUMMARY_ROW_WITH_RESULTS=3 SUMMARY_ROW_ONLY=4
`

const root = "google.ads.googleads.v25."

// The subset is Google's own, name for name and number for number: it can be
// read by their clients, and read what their servers send.
func TestNumbersAreGoogles(t *testing.T) {
	want := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(published), "\n") {
		name, list, _ := strings.Cut(line, ":")
		want[root+name] = strings.TrimSpace(list)
	}
	got := map[string]string{}
	for _, part := range []string{"services", "resources", "common", "errors", "enums"} {
		protoregistry.GlobalFiles.RangeFilesByPackage(protoreflect.FullName(root+part), func(f protoreflect.FileDescriptor) bool {
			describe(got, f.Messages())
			return true
		})
	}
	for name, list := range got {
		if w, ok := want[name]; !ok || w != list {
			t.Errorf("%s\n has %s\nwant %s", name, list, w)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, m := range []string{GoogleAdsService_Search_FullMethodName, GoogleAdsService_SearchStream_FullMethodName, CustomerService_ListAccessibleCustomers_FullMethodName} {
		if !strings.HasPrefix(m, "/"+root+"services.") {
			t.Errorf("method %s", m)
		}
	}
}

// describe writes messages and enums down as published has them. A message that
// only wraps an enum is not worth a line.
func describe(into map[string]string, ms protoreflect.MessageDescriptors) {
	for i := range ms.Len() {
		m := ms.Get(i)
		var fields []string
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			mark := ""
			switch {
			case f.HasOptionalKeyword():
				mark = "?"
			case f.IsList():
				mark = "[]"
			case f.ContainingOneof() != nil:
				mark = "|"
			}
			fields = append(fields, fmt.Sprintf("%s%s=%d", f.Name(), mark, f.Number()))
		}
		if len(fields) > 0 || m.Enums().Len() == 0 {
			into[string(m.FullName())] = strings.Join(fields, " ")
		}
		for j := range m.Enums().Len() {
			e := m.Enums().Get(j)
			var values []string
			for k := range e.Values().Len() {
				v := e.Values().Get(k)
				if n := v.Number(); n > 1 {
					values = append(values, fmt.Sprintf("%s=%d", v.Name(), n))
				} else if v.Name() != [...]protoreflect.Name{"UNSPECIFIED", "UNKNOWN"}[n] {
					values = append(values, fmt.Sprintf("%s=%d", v.Name(), n))
				}
			}
			into[string(e.FullName())] = strings.Join(values, " ")
		}
		describe(into, m.Messages())
	}
}

// Generated code names its generators: all files the same.
func TestGeneratedByOneSet(t *testing.T) {
	files, err := filepath.Glob("*.pb.go")
	if err != nil || len(files) != 6 {
		t.Fatalf("generated files %v, %v", files, err)
	}
	line := regexp.MustCompile(`(?m)^//\s+(?:- )?protoc\s+(v[0-9.]+)$`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if m := line.FindSubmatch(text); m == nil || string(m[1]) != "v3.21.12" {
			t.Errorf("%s was generated by %s, want protoc v3.21.12", f, m)
		}
	}
}
