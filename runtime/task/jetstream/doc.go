// Package jetstream provides a durable task store that many processes share. It stores tasks in
// streams of NATS JetStream; the servers replicate the streams. It needs nats-server 2.12 or newer,
// and is tested with 2.15.
//
//	js, err := natsjs.New(nc) // natsjs is github.com/nats-io/nats.go/jetstream
//	…
//	store, err := jetstream.Open(ctx, js, jetstream.Options{Replicas: 3})
//	…
//	s := server.New("shop", "1.0.0", &server.Options{Tasks: task.Options{Store: store}})
//
// # Guarantees
//
// A write is acknowledged once a majority of the replicas has it. It is lost only if a majority of
// the replicas is lost, or if all servers lose power before they write to their disks. To prevent
// the latter, set sync_interval to "always" on servers that share a power supply, and on a single
// server.
//
// A server whose disk is full disables JetStream until it is restarted with free space. While most
// of the servers have no space, all calls fail with [ErrUnavailable], and [task.Store.Health]
// returns an error once a write has failed.
//
// [task.Store.Update] is a compare-and-set: the servers accept a message only if the last message
// of its subject has the expected sequence. So writers need no locks, and clocks decide nothing. If
// the acknowledgement of a write is lost, the store repeats the write; it recognises its own write.
// If a call fails because its context ended, or with [ErrUnavailable], the write may have happened.
//
// The leader of a stream answers all reads of its records. For some seconds, a server that was cut
// off from the others may still act as leader, and may answer with an old record. It can accept no
// writes, so an update that is based on such a record fails. A member of the fleet does not read an
// earlier record of a task that it follows than the one that was announced or that it has written:
// it repeats the read.
//
// [task.Store.Wait] subscribes to a subject on which the servers announce each write of the record.
// When an announcement arrives, it reads the record from the leader. The store reads all tasks with
// waiters again after the connection was lost, after the election of a leader, and after it had to
// drop announcements. Servers that are cut off from each other for a moment lose announcements,
// although no connection of a client breaks and no leader changes. So the store also reads the
// tasks that have waiters or that a member follows one after the other, from any replica: each of
// them about once in 20 seconds, but no more than 20 in a second. Each task with waiters needs a
// subscription, and each waiter a goroutine.
//
// # Streams
//
// A partition n of the store TASKS consists of two streams, TASKS-n and TASKS-n-index. Both discard
// new messages when they are full; then writes fail with [ErrFull], and [task.Store.Health] reports
// it until a write succeeds. New tasks are refused with ErrFull while a sixteenth of TASKS-n is
// still free, so that the tasks that exist can end. [task.Store.Sweep] needs no space. These are
// the subjects:
//
//	TASKS.n.r.ID             record of a task, with its small payloads and the last entries of its journal
//	TASKS.n.p.ID.BLOB.i      part i of large params, of other large payloads, or of earlier entries
//	TASKS.n.h.MEMBER.ID      one message for each unfinished task; MEMBER is "=" if it has no holder
//	TASKS.n.o.OWNER          one message for each task of an owner; its sequence is the Seq of the record
//	TASKS.n.d.SHIFT.PERIOD   one message for each task that expires in a period
//	TASKS.n.w.ID             announcements of changes; not stored
//
// ID is the id of the task, encoded if it contains other characters than letters, digits, "-" and
// "_". OWNER is a digest of the owner. The first three subjects are in TASKS-n, where n is a hash
// of the id; the next two are in TASKS-n-index, where n is a hash of the owner. Records and parts
// are written in one atomic batch. Params of more than 16 KB are in parts of their own, which no
// change of the task writes again. Once a record has 4 KB of entries, they move to a part. So an
// entry is written a few times at most, independent of the length of the journal, and a step of the
// work usually publishes one message.
//
// A task is added to the indexes before its record is written, and removed from them after its
// record. A crash may leave an entry without a record; all readers skip it.
//
// The index of holders ("h") lets Membership.Orphans find the tasks of members that have
// ended. The cost depends only on the number of these tasks. A claim adds its entry after it has
// read the record and before it replaces the record. The store removes obsolete entries later;
// until then, readers compare them with the record. Before a reader removes an obsolete entry of a
// member that has ended, it replaces the record by an equal one: a pending claim of that member
// then fails.
//
// MEMBER is "_" in messages that confirm that there is no record or no entry, and that a member has
// ended. The servers accept such a message only in that case, while the answer to a read may come
// from a server that was cut off. A call therefore fails with [task.ErrNotFound] only after such a
// message was accepted, or if the stream is full. The messages expire after ten seconds.
//
// # Expiry
//
// [task.Store.Sweep] drops expired tasks in the order of their expiry. If more than 1,024 tasks
// expire within a 2,048th of their TTL, it may drop these in the order of their creation. In
// addition, the servers remove all messages of a task a day after it has expired: tasks that no
// process sweeps, and messages that crashes have left. Those of an unfinished durable task they
// keep 30 days longer, because the task may have to be undone; see [task.Record.Retained].
//
// # Clocks
//
// Processes and servers may have wrong clocks. [task.Store.Now] is the time of the servers: [Open]
// and each renewal of a lease compare it with the monotonic clock of the process. If the time of
// the servers jumps, the store accepts the new time only if it is closer to the wall clock of the
// process. A [task.Manager] uses [task.Store.Now] for the times of records and for sleeps, and
// drops a task once the clocks of both the process and the servers have reached its expiry.
//
// The servers count lifetimes of messages by their wall clocks. If the clock of the leader of
// TASKS-members is set forward, leases end early. If it is set back, the lease of a member that
// ends before its next renewal lasts longer by that step. The other members end it once they have
// not heard of the member for two leases by their own clocks. Each of them looks again after 1.5
// times its lease at the latest. A clock that is set forward by more than a day makes a server
// remove the messages of a task early.
//
// # Fleet
//
// Join of a [Store] makes a process a member of the fleet; see [task.Store].Join. Members
// are in the stream TASKS-members, with these subjects:
//
//	TASKS.members.l.ID   the member, a message that expires with its lease
//	TASKS.members.h.ID   one message for each member that may hold tasks, alive or not
//	TASKS.members.w.ID   announcements of members that join and end; not stored
//	TASKS.members.o.ID   offers of tasks to a member, queries and responses; not stored
//
// The messages with "h" are the roster: Membership.Orphans reads the indexes of the members
// of the roster that are not alive, and removes those whose index is empty.
//
// A member renews its message by compare-and-set. So a member cannot come back after its message
// has expired, and its end is final for the other members. The servers count the lease, in whole
// seconds. The member counts it, too, from the beginning of the latest acknowledged renewal. So it
// notices the end no later than the servers, unless its own clock is slow. The servers announce
// each renewal to all members. If no renewal of a member was announced for two leases, the other
// members read its message: they notice its end although announcements may be lost. If it has not
// renewed its message since, the other member replaces that by the last one.
//
// Quotas, such as that of a tool with a limit, are in the stream TASKS-quotas, with these subjects:
//
//	TASKS.quotas.q.DIGEST   shares of the members, by the digest of the name of the quota
//	TASKS.quotas.w.DIGEST   announcements of changes, with the shares; not stored
//
// A member writes its share by compare-and-set. It subscribes to the quotas in which it has a share
// or waits for one. While it waits, it also reads the quota about once in each lease, because
// servers may lose announcements. A quota that no member uses is removed after a second.
//
// Messages of Membership.Send use the subject of the announcements of the task. A member
// that follows a task has a subscription to it.
//
// # Permissions
//
// A user needs to publish to TASKS.> and, for each stream STREAM of the store, to
// $JS.API.STREAM.*.STREAM, $JS.API.STREAM.MSG.*.STREAM, $JS.API.DIRECT.GET.STREAM and
// $JS.API.DIRECT.GET.STREAM.>; and to subscribe to TASKS.*.w.*, TASKS.members.o.*, to its inbox,
// and to $JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.STREAM. Calls that lack a permission fail with
// [ErrUnavailable]; NATS reports the violation to [nats.ErrorHandler].
//
// # Limits
//
// An id has at most 128 bytes. A write adds at most 900 parts of 128 KB, or of max_payload less 4 KB
// if that is smaller: a larger task, step or result fails with a [task.LimitError]. A server accepts
// 50 atomic batches per stream at a time by default (max_batch_inflight_per_stream); the store
// repeats those that it rejects. A single server with files takes some milliseconds more for an
// atomic batch, because it first writes it to a separate file.
//
// # Schema
//
// The metadata of each stream has the version of the schema. [Open] upgrades older versions and
// refuses newer ones with [ErrSchema]. It refuses to upgrade version 1 while members of that
// version are alive; stop them first. It reads all records for that upgrade, once.
package jetstream
