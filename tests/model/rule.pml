/* What a rank decides and writes down: the dispatch rule, and the books of tasks, credits and
 * inputs. All of it is inlined into proctype rank (protocol.pml), whose variables it uses. */

#define NONE 255 /* no task */
#define chunk_in(entry) ((entry) >> 4 & 1)
#define batch_in(entry) ((entry) & 7)
#define tasks (f_count + f_count * TRAINING + w_count + u_count)
#define is_split(entry) ((entry) & 8)
#define at(entry) ran[chunk_in(entry) * MICRO_BATCHES + batch_in(entry)]
#define has(entry, what) ((at(entry) & (what)) == (what))

#define F 0
#define B 1
#define W 2
#define U 3

/* What has been done of a micro-batch in a chunk. */
#define FORWARD_DONE 1
#define GRADIENT_DONE 2
#define SUMMED 4

/* What a chunk's edges are, and which of them leave the rank (in `joins`, `far`). */
#define F_IN 1
#define B_IN 2
#define T_IN 4 /* the targets, from the trainer */
#define F_OUT 8
#define B_OUT 16

/* Whether the inputs of the first forward (backward) not yet started are known to be here. */
#define forward_input(l, m) \
  ((!(joins[l] & F_IN) || f_seen[l] >> (m) & 1) && (!(joins[l] & T_IN) || t_seen[l] >> (m) & 1))
#define backward_input(l, m) \
  (joins[l] & B_IN -> b_seen[l] >> (m) & 1 : (ran[(l) * MICRO_BATCHES + (m)] & FORWARD_DONE))

#if RECEIVE_SLOTS > 0
#define all_room (f_flying[0] + b_flying[0] + f_flying[CHUNKS - 1] + b_flying[CHUNKS - 1] == 0)
#define room_for_forward(l) (!(far[l] & F_OUT) || f_flying[l] < RECEIVE_SLOTS)
#define room_for_backward(l) (!(far[l] & B_OUT) || b_flying[l] < RECEIVE_SLOTS)
#else
#define all_room true
#define room_for_forward(l) true
#define room_for_backward(l) true
#endif

#if FAULT == OVERDRAWN
#define credit_free (held <= credits)
#else
#define credit_free (held < credits)
#endif

/* The rule: what an idle rank starts next, the head of a lane. */
inline decide() {
  d_step {
    can_f = nf < f_count && forward_input(chunk_in(f_lane[nf]), batch_in(f_lane[nf])) &&
            updates[chunk_in(f_lane[nf])] >= f_version[nf] &&
            room_for_forward(chunk_in(f_lane[nf]));
    /* A whole backward adds to its chunk's gradients: after the weight gradients put off before. */
    can_b = nb < f_count * TRAINING && backward_input(chunk_in(b_lane[nb]), batch_in(b_lane[nb])) &&
            (is_split(b_lane[nb]) || owed[chunk_in(b_lane[nb])] == 0) &&
            room_for_backward(chunk_in(b_lane[nb]));
    can_w = nw < w_count && has(w_lane[nw], GRADIENT_DONE);
    can_u = nu < u_count && has(u_lane[nu], SUMMED);
    wants_f = nf < f_count && (!TRAINING || nf - nb < warm_up);
    if
    :: fixed_order -> /* no choice: the next of the order, or nothing */
      choice = (nf + nb + nw + nu == tasks -> NONE : order[nf + nb + nw + nu]);
      if
      :: (choice == F && !(can_f && credit_free)) || (choice == B && !can_b) ||
         (choice == W && !can_w) || (choice == U && !can_u) -> choice = NONE
      :: else
      fi
    :: else ->
      if
      :: can_u -> choice = U /* asynchronous plans: new weights first */
      :: else ->
        if
        :: wants_f && can_f && !credit_free && can_w -> choice = W          /* 1 */
        :: else ->
          if
          :: wants_f && can_f && credit_free -> choice = F                  /* 2 */
          :: !wants_f && can_b -> choice = B
          :: else ->
            if
            :: stand_in && !wants_f && can_f && credit_free -> choice = F   /* 3 */
            :: stand_in && wants_f && can_b && nf - nb >= warm_up - lead -> choice = B
            :: else ->
              if
              :: can_w -> choice = W                                        /* 4 */
              :: else -> choice = NONE                                      /* 5 */
              fi
            fi
          fi
        fi
      fi
    fi;
    can_f = false; can_b = false; can_w = false; can_u = false; wants_f = false
  }
}

/* Takes what was announced on an edge, by its name: its content must be what the task needs. */
inline take(from, seen) {
#if CAPACITY > 1
  from??eval(m), content; /* there may be several; the receiver tells them apart by their names */
#else
  from?eval(m), content;
#endif
  seen = seen & ~(1 << m);
  assert(content == m);
  content = 0
}

#if RECEIVE_SLOTS > 0
#define give_back(edge, chan) if :: far[c] & edge -> chan!1 :: else fi
#else
#define give_back(edge, chan) skip
#endif

#define needs(kind, edge, l) (choice == kind && c == l && (joins[c] & edge))

inline take_inputs() {
  if
  :: needs(F, F_IN, 0) -> take(f_slot0, f_seen[c]); give_back(F_IN, f_back0)
  :: needs(B, B_IN, 0) -> take(b_slot0, b_seen[c]); give_back(B_IN, b_back0)
#if CHUNKS > 1
  :: needs(F, F_IN, 1) -> take(f_slot1, f_seen[c]); give_back(F_IN, f_back1)
  :: needs(B, B_IN, 1) -> take(b_slot1, b_seen[c]); give_back(B_IN, b_back1)
#endif
  :: else
  fi;
  if
  :: needs(F, T_IN, 0) -> take(t_slot0, t_seen[c])
#if CHUNKS > 1
  :: needs(F, T_IN, 1) -> take(t_slot1, t_seen[c])
#endif
  :: else
  fi
}

inline start() {
  d_step {
    if
    :: choice == F ->
#if FAULT == UNORDERED
      assert(f_plan[nf] == entry); /* lane order; without the fault only heads can start */
#endif
      nf++; held++;
      assert(held <= credits && held <= most)
    :: choice == B ->
      nb++; owed[c] = owed[c] + is_split(entry) / 8
    :: choice == W -> nw++; owed[c]--
    :: choice == U -> nu++
    fi;
#if RECEIVE_SLOTS > 0
    if
    :: choice == F && (far[c] & F_OUT) -> f_flying[c]++
    :: choice == B && (far[c] & B_OUT) -> b_flying[c]++
    :: else
    fi
#endif
  }
}

/* A chunk's gradients are summed in the order of its backwards, whatever the timing. */
inline sum() {
  i = 0;
  do
  :: chunk_in(b_lane[i]) == c && batch_in(b_lane[i]) == m -> break
  :: else -> assert(chunk_in(b_lane[i]) != c || has(b_lane[i], SUMMED)); i++
  od;
  i = 0;
  at(entry) = at(entry) | SUMMED;
  held--
}

inline finish() {
  d_step {
    if
    :: choice == F ->
      assert(at(entry) == 0); /* once */
      at(entry) = FORWARD_DONE;
      held = held - !TRAINING
    :: choice == B ->
      assert(at(entry) == FORWARD_DONE);
      at(entry) = at(entry) | GRADIENT_DONE;
      if
      :: !is_split(entry) -> sum()
      :: else
      fi
    :: choice == W ->
      assert(at(entry) == (FORWARD_DONE | GRADIENT_DONE));
      sum()
    :: choice == U ->
      assert(has(entry, SUMMED));
      updates[c]++;
      /* From the version that the next backward uses to the newest one. */
      assert(nb == f_count || updates[c] - f_version[nb] + 1 <= most_versions)
    fi
  };
  if
  :: needs(F, F_OUT, 0) -> f_out0!m, m
  :: needs(B, B_OUT, 0) -> b_out0!m, m
#if CHUNKS > 1
  :: needs(F, F_OUT, 1) -> f_out1!m, m
  :: needs(B, B_OUT, 1) -> b_out1!m, m
#endif
  :: else
  fi
}

inline all_ran() {
  d_step {
    assert(nf == f_count && nb == f_count * TRAINING && nw == w_count && nu == u_count);
    assert(held == 0);
    i = 0;
    do
    :: i < f_count -> assert(at(f_lane[i]) == (TRAINING -> 7 : FORWARD_DONE)); i++
    :: else -> break
    od;
    i = 0
  }
}

/* What the actor does whenever something has changed. */
inline choose() {
#if FAULT == UNORDERED
  /* Any forward whose input is here, instead of the head of its lane. */
  i = nf;
  do
  :: i < f_count - 1 -> i++
  :: break
  od;
  if
  :: nf < f_count && forward_input(chunk_in(f_lane[i]), batch_in(f_lane[i])) ->
    entry = f_lane[i]; f_lane[i] = f_lane[nf]; f_lane[nf] = entry; entry = 0
  :: else
  fi;
  i = 0;
#endif
  decide()
}

/* News of a transfer: the first of its name. */
inline heard(l, seen, done) {
  assert(!(seen >> name & 1) && !(ran[l * MICRO_BATCHES + name] & done));
  seen = seen | 1 << name;
  name = 0;
  choose()
}
