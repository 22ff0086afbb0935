/* Plans as data, for the constants before this file and the tables after it. They are C constants
 * of pan, since as Promela variables they would make every state longer; and so one pan holds many
 * plans. Nothing else of the model is C: init and load_plan() copy them. */
c_decl {
  struct plan_of_rank {
    /* Lanes by kind; an entry is taken apart by chunk_in(), batch_in(), is_split(). */
    unsigned char f_lane[LANE], b_lane[LANE], w_lane[LANE], u_lane[LANE];
    unsigned char f_version[LANE]; /* of the weights, that a forward waits for and uses */
    unsigned char order[4 * LANE]; /* kinds, where fixed_order */
    int f_count, w_count, u_count, credits, warm_up, lead, stand_in, fixed_order;
    int most, most_versions; /* activations and versions of weights that check() allows */
    unsigned char joins[CHUNKS], far[CHUNKS]; /* bits: which edges it has, which leave the rank */
    unsigned char ends[CHUNKS][5];            /* their numbers: F_IN, B_IN, T_IN, F_OUT, B_OUT */
  };
  struct plan_of_step {
    const char* name;
    int ranks, edges, live; /* live: what check() says */
    unsigned char first[EDGES], last[EDGES]; /* micro-batches that the trainer sends, by edge */
    struct plan_of_rank by_rank[RANKS];
  };
};
