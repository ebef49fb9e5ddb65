package task

// Reservation is the part of a quota that a member of a fleet uses and wants. A quota is a number
// of permits that all members share.
type Reservation struct {
	Used int64 // permits in use; they count even if they are not granted
	Want int64 // permits that the member could use; at least Used
	Max  int64 // permits of the quota
}

// Share is a member's share of a quota.
type Share struct {
	// Granted is the number of permits that the member may use. Only the member itself lowers it,
	// by [Membership.Reserve].
	Granted int64
	// Contended is set while another member waits for permits.
	Contended bool
	// Stale is set if a member that has departed may still have permits, which Reserve takes away.
	Stale bool
}
