//! `baton chat`: a conversation in a terminal, and in scripts.

mod commands;
mod scripts;
mod terminal;
mod typist;
mod words;
