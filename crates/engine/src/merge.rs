//! Many answers, one decision: pure, total, and the same in whatever order the answers came.
