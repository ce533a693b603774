//! `becket init`, `uninit`, `doctor` and `config` through the real program.
