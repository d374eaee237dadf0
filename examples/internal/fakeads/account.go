package fakeads

import (
	"fmt"
	"math"
	"strconv"
	"time"
	_ "time/tzdata" // accounts live in time zones wherever the server runs

	"github.com/flyball-go/flyball/examples/internal/adspb"
)

// The states that accounts are in here.
const (
	enabled   = adspb.CustomerStatusEnum_ENABLED
	canceled  = adspb.CustomerStatusEnum_CANCELED
	suspended = adspb.CustomerStatusEnum_SUSPENDED
)

// Account is a client account or a manager of accounts.
type Account struct {
	ID       int64 // ten digits
	Name     string
	Currency string
	TimeZone string
	Status   adspb.CustomerStatusEnum_CustomerStatus
	Manager  bool
	Parent   *Account // nil: the top
	Below    []*Account

	seed uint64
	loc  *time.Location
}

func (a *Account) resource() string { return "customers/" + strconv.FormatInt(a.ID, 10) }

// under reports whether m manages a, at any distance, or is a.
func (a *Account) under(m *Account) bool {
	for ; a != nil; a = a.Parent {
		if a == m {
			return true
		}
	}
	return false
}

// Data is all accounts of a server. It is never written after NewData and may
// be shared by any number of servers.
type Data struct {
	Root *Account // the manager that the credentials open

	byID map[int64]*Account
}

// NewData returns n accounts in use, a few canceled and suspended ones beside
// them, and the managers above them, as seed has them.
func NewData(seed uint64, n int) (*Data, error) {
	if n < 0 || n > 1_000_000 {
		return nil, fmt.Errorf("fakeads: %d accounts, want 0 to 1000000", n)
	}
	d := &Data{byID: make(map[int64]*Account, n+n/20)}
	d.Root = d.add(seed, 0, nil, true, enabled)
	managers := []*Account{d.Root}
	for i := range n / 80 {
		managers = append(managers, d.add(seed, 1+uint64(i), d.Root, true, enabled))
	}
	total := n + int(math.Ceil(float64(n)*0.03))
	for i := range total {
		status := enabled
		if i >= n {
			status = canceled
			if i%3 == 0 {
				status = suspended
			}
		}
		r := mix(seed ^ uint64(i))
		d.add(seed, 1<<32+uint64(i), managers[r%uint64(len(managers))], false, status)
	}
	return d, nil
}

// add makes the n-th account. Its number decides everything about it but its
// place and status.
func (d *Data) add(seed, n uint64, parent *Account, manager bool, status adspb.CustomerStatusEnum_CustomerStatus) *Account {
	r := source(seed, n)
	id := 1_000_000_000 + r.Int64N(9_000_000_000)
	for d.byID[id] != nil {
		id = 1_000_000_000 + (id+1)%9_000_000_000
	}
	home := pick(r, homes)
	a := &Account{ID: id, Currency: home.currency, TimeZone: home.zone, Status: status, Manager: manager,
		Parent: parent, seed: mix(seed ^ mix(n)), loc: location(home.zone)}
	place, trade := places[r.IntN(len(places))], trades[r.IntN(len(trades))]
	a.Name = place + " " + trade
	if manager {
		a.Name = place + " Media"
	}
	if parent != nil {
		parent.Below = append(parent.Below, a)
	}
	d.byID[id] = a
	return a
}

// Account returns the account of an ID, nil when there is none.
func (d *Data) Account(id int64) *Account { return d.byID[id] }

// Customers returns the IDs of the accounts with reports: clients in use.
func (d *Data) Customers() (ids []int64) {
	var walk func(*Account)
	walk = func(a *Account) {
		if !a.Manager && a.Status == enabled {
			ids = append(ids, a.ID)
		}
		for _, b := range a.Below {
			walk(b)
		}
	}
	walk(d.Root)
	return ids
}

type home struct{ zone, currency string }

var homes = []choice[home]{
	{30, home{"America/New_York", "USD"}}, {15, home{"America/Los_Angeles", "USD"}}, {15, home{"Europe/Berlin", "EUR"}},
	{10, home{"Europe/London", "GBP"}}, {8, home{"Asia/Tokyo", "JPY"}}, {6, home{"America/Sao_Paulo", "BRL"}},
	{6, home{"Australia/Sydney", "AUD"}}, {5, home{"Asia/Kolkata", "INR"}}, {5, home{"Europe/Stockholm", "SEK"}},
}

var places = []string{"Alder", "Birch", "Bright", "Cedar", "Clear", "Coast", "Delta", "East", "Elm", "Field", "Grand", "Harbor", "Hill",
	"Lake", "Maple", "North", "Oak", "Pine", "Prime", "River", "Rock", "South", "Spring", "Stone", "Summit", "Sun", "Valley", "West", "Willow"}

var trades = []string{"Bakery", "Bikes", "Books", "Cars", "Clinic", "Coffee", "Dental", "Electric", "Energy", "Fashion", "Flowers",
	"Foods", "Furniture", "Gardens", "Homes", "Hotels", "Insurance", "Jewelry", "Law", "Music", "Pets", "Plumbing", "Shoes", "Software", "Sports",
	"Tools", "Toys", "Travel", "Wines"}

var zones = func() map[string]*time.Location {
	m := map[string]*time.Location{}
	for _, h := range homes {
		loc, err := time.LoadLocation(h.value.zone)
		if err != nil {
			panic("fakeads: " + err.Error()) // tzdata is linked in
		}
		m[h.value.zone] = loc
	}
	return m
}()

func location(zone string) *time.Location { return zones[zone] }
