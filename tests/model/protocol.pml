/* The protocol of one step, written for the model checker spin from its description in words (the
 * dispatch rule's five lines, lanes, warm-up levels, credits, stand-in; what stages and channels
 * say to each other), not from the C++. Before this file come constants and plans as data (see
 * plan.pml), printed by promela_of_plan. Nothing below knows of any schedule.
 *
 *     rank --out--> wire --slot, news--> rank        an edge: a payload kind into one chunk
 *
 * A rank hands a transfer to its edge and goes on at once: out never fills. A wire brings the
 * transfers of its edge, in order, to the receiver: it tells it (news) that one is there, and holds
 * the next one back until the receiver has taken it. With CAPACITY 1 the transfer lies in a slot at
 * the receiver; with CAPACITY 0 (rendezvous) it stays with the sender until the task that uses it
 * starts; with more, that many may lie at the receiver, which tells them apart by their names. What
 * a wire does takes as long as it likes; so does a task: its start and its end are two steps, and
 * all that other processes do may fall between any two steps.
 *
 * What is joined into one step, and why no behaviour is lost by it:
 * - d_step around the choice and the bookkeeping of a rank: they touch the rank's own variables
 *   only, are deterministic, and cannot block, so no other process can tell.
 * - Reading one piece of news and choosing again is one handler of the stage actor. As a task's
 *   start is a step of its own, more news may still come first: the model allows more than the
 *   actor does, which chooses at once.
 * - News is read only while no task runs. The actor also notes it while its device is busy, but
 *   looks at its notes only when the task has ended, and here a rank may read any amount of news
 *   between the end of a task and the next start.
 * - The end of a task and the sending of its result: out never blocks, and nobody else can see the
 *   rank's variables between the two.
 * The search may also leave out interleavings (partial order reduction): each channel has one
 * sender and one receiver, which xr and xs tell spin, and pan checks that it is so.
 */

#include "rule.pml"

/* A transfer: the micro-batch that it is named after, and the one that its content is of. For the
 * edges that a chunk lacks, each rank has one of its own, from nobody to nobody. */
#define ALL_EDGES (EDGES + RANKS)
chan out[ALL_EDGES] = [MICRO_BATCHES] of {byte, byte};
chan slot[ALL_EDGES] = [CAPACITY] of {byte, byte};
chan news[ALL_EDGES] = [1] of {byte};
short which;   /* plan of those in this file */
byte finished; /* ranks that have run all their tasks */

#if RECEIVE_SLOTS > 0
chan back[ALL_EDGES] = [RECEIVE_SLOTS] of {bit}; /* receive slots that are free again */
#endif
#if FAULT != NO_FAULT
bool faulty = false; /* a fault happens once */
#endif

#if CAPACITY == 0
#define bring(name, content) tell!name; into!name, content
#else
#define bring(name, content) into!name, content; tell!name
#endif

/* One edge. The trainer's edges have no sending rank: the wire itself has the micro-batches from
 * `next` to `end`, which the trainer hands over at the beginning of the step. */
proctype wire(chan from; chan into; chan tell; byte next; byte end) {
#if FAULT != SWAPPED
  xr from;
#endif
  xs tell;
#if CAPACITY > 0
  xs into;
#endif
  byte name, content;
#if FAULT == SWAPPED
  byte second, other;
#endif
  do
  :: next < end ->
    bring(next, next);
    next++
  :: else -> break
  od;
waits: end_waits:
  do
  :: from?name, content ->
#if FAULT == LOST || FAULT == DUPLICATED
    if
    :: atomic { !faulty -> faulty = true };
#if FAULT == DUPLICATED
      bring(name, content);
      bring(name, content)
#endif
    :: true -> bring(name, content)
    fi;
#else
    bring(name, content);
#endif
    name = 0; content = 0
#if FAULT == SWAPPED
  :: atomic { !faulty && len(from) >= 2 -> from?name, content; from?second, other;
      faulty = true };
    bring(name, other);
    bring(second, content);
    name = 0; content = 0; second = 0; other = 0
#endif
  od
}

inline load_plan() {
  c_code {
    const struct plan_of_rank* mine = &plans[now.which]->by_rank[Prank->me];
    memcpy(Prank->f_lane, mine->f_lane, LANE);
    memcpy(Prank->b_lane, mine->b_lane, LANE);
    memcpy(Prank->w_lane, mine->w_lane, LANE);
    memcpy(Prank->u_lane, mine->u_lane, LANE);
    memcpy(Prank->f_version, mine->f_version, LANE);
    memcpy(Prank->order, mine->order, 4 * LANE);
    memcpy(Prank->joins, mine->joins, CHUNKS);
    memcpy(Prank->far, mine->far, CHUNKS);
    Prank->f_count = mine->f_count;
    Prank->w_count = mine->w_count;
    Prank->u_count = mine->u_count;
    Prank->credits = mine->credits;
    Prank->warm_up = mine->warm_up;
    Prank->lead = mine->lead;
    Prank->stand_in = mine->stand_in;
    Prank->fixed_order = mine->fixed_order;
    Prank->most = mine->most;
    Prank->most_versions = mine->most_versions;
#if FAULT == UNORDERED
    memcpy(Prank->f_plan, mine->f_lane, LANE);
#endif
  }
}

/* The channels of a chunk, by number. What is told to a rank may only be read by it, and so on. */
#define chunk_channels(l) \
  chan f_news##l; chan b_news##l; chan t_news##l; chan f_slot##l; chan b_slot##l; chan t_slot##l; \
  chan f_out##l; chan b_out##l
#define slot_channels(l) chan f_back##l; chan b_back##l; chan f_room##l; chan b_room##l

#if CHUNKS == 1 && RECEIVE_SLOTS == 0
proctype rank(byte me; chunk_channels(0)) {
#elif CHUNKS == 1
proctype rank(byte me; chunk_channels(0); slot_channels(0)) {
#elif RECEIVE_SLOTS == 0
proctype rank(byte me; chunk_channels(0); chunk_channels(1)) {
#else
proctype rank(byte me; chunk_channels(0); slot_channels(0); chunk_channels(1); slot_channels(1)) {
#endif
  /* The plan of this rank, for load_plan(): lanes; edges by chunk. */
  byte f_lane[LANE], f_version[LANE], b_lane[LANE], w_lane[LANE], u_lane[LANE];
  byte order[4 * LANE];
  byte f_count, w_count, u_count, credits;
  short warm_up, lead;
  bool stand_in, fixed_order;
  byte joins[CHUNKS], far[CHUNKS]; /* edges: all, and those to and from other ranks */
  byte most, most_versions;

  /* How far it is. */
  byte nf, nb, nw, nu, held; /* started, by kind; activations */
  byte ran[CHUNKS * MICRO_BATCHES];
  byte f_seen[CHUNKS], b_seen[CHUNKS], t_seen[CHUNKS]; /* bits: announced and not taken */
  byte owed[CHUNKS], updates[CHUNKS];
#if RECEIVE_SLOTS > 0
  byte f_flying[CHUNKS], b_flying[CHUNKS]; /* sent and not taken */
#endif

  /* Scratch, always put back. */
  byte choice = NONE, entry, c, m, i, name, content;
  bool can_f, can_b, can_w, can_u, wants_f;
#if FAULT == UNORDERED
  byte f_plan[LANE];
#endif

#if RECEIVE_SLOTS > 0
#endif

  xr f_news0; xr b_news0; xr t_news0;
#if FAULT != SWAPPED
  xs f_out0; xs b_out0;
#endif
#if CAPACITY == 1
  xr f_slot0; xr b_slot0; xr t_slot0;
#endif
#if CHUNKS > 1
  xr f_news1; xr b_news1; xr t_news1;
#if FAULT != SWAPPED
  xs f_out1; xs b_out1;
#endif
#if CAPACITY == 1
  xr f_slot1; xr b_slot1; xr t_slot1;
#endif
#endif

  atomic { load_plan(); choose() };
  do
  :: choice != NONE ->
    d_step {
      entry = (choice == F -> f_lane[nf] : (choice == B -> b_lane[nb] :
              (choice == W -> w_lane[nw] : u_lane[nu])));
      c = chunk_in(entry);
      m = batch_in(entry)
    };
    take_inputs();
    start();
    /* The task runs. */
    atomic {
      finish();
      entry = 0; c = 0; m = 0;
      choose()
    }
  :: atomic { f_news0?name -> heard(0, f_seen[0], FORWARD_DONE) }
  :: atomic { b_news0?name -> heard(0, b_seen[0], GRADIENT_DONE) }
  :: atomic { t_news0?name -> heard(0, t_seen[0], FORWARD_DONE) }
#if CHUNKS > 1
  :: atomic { f_news1?name -> heard(1, f_seen[1], FORWARD_DONE) }
  :: atomic { b_news1?name -> heard(1, b_seen[1], GRADIENT_DONE) }
  :: atomic { t_news1?name -> heard(1, t_seen[1], FORWARD_DONE) }
#endif
#if RECEIVE_SLOTS > 0
  :: atomic { f_room0?_ -> f_flying[0]--; choose() }
  :: atomic { b_room0?_ -> b_flying[0]--; choose() }
#if CHUNKS > 1
  :: atomic { f_room1?_ -> f_flying[1]--; choose() }
  :: atomic { b_room1?_ -> b_flying[1]--; choose() }
#endif
#endif
  :: nf + nb + nw + nu == tasks && all_room -> break
  od;
  all_ran();
  finished++
}

#define ends(l, channels, i) channels[end[l * 5 + i]]
#define ends_of_chunk(l) \
  ends(l, news, 0), ends(l, news, 1), ends(l, news, 2), \
  ends(l, slot, 0), ends(l, slot, 1), ends(l, slot, 2), ends(l, out, 3), ends(l, out, 4)
#define rooms_of_chunk(l) ends(l, back, 0), ends(l, back, 1), ends(l, back, 3), ends(l, back, 4)

/* Starts the wires and ranks of a plan, in one step, and waits for the ranks. */
init {
  byte edges, ranks, i, first, last;
  bool may_finish;
  byte end[5 * CHUNKS];
  atomic {
    c_code {
      const char* asked = getenv("PLAN");
      now.which = asked ? atoi(asked) : 0;
      if (now.which >= sizeof plans / sizeof *plans) {
        printf("there is no plan %d in this file\n", now.which);
        exit(1);
      }
      printf("runs %s\n", plans[now.which]->name); /* for the reader to check which it is */
      Pinit->edges = plans[now.which]->edges;
      Pinit->ranks = plans[now.which]->ranks;
      Pinit->may_finish = plans[now.which]->live;
    };
    do
    :: i < edges ->
      c_code {
        Pinit->first = plans[now.which]->first[Pinit->i];
        Pinit->last = plans[now.which]->last[Pinit->i];
      };
      run wire(out[i], slot[i], news[i], first, last);
      i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < ranks ->
      c_code {
        memcpy(Pinit->end, plans[now.which]->by_rank[Pinit->i].ends, 5 * CHUNKS);
      };
#if CHUNKS == 1 && RECEIVE_SLOTS == 0
      run rank(i, ends_of_chunk(0));
#elif CHUNKS == 1
      run rank(i, ends_of_chunk(0), rooms_of_chunk(0));
#elif RECEIVE_SLOTS == 0
      run rank(i, ends_of_chunk(0), ends_of_chunk(1));
#else
      run rank(i, ends_of_chunk(0), rooms_of_chunk(0), ends_of_chunk(1), rooms_of_chunk(1));
#endif
      i++
    :: else -> break
    od;
    i = 0; first = 0; last = 0
  };
  finished == ranks;
  assert(may_finish) /* what is called stuck never finishes: for pan -E */
}
