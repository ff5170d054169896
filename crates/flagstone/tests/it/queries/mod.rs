//! Queries: against a model in memory, whatever the plan; pages, writes by filter, real documents.

mod basics;
mod covered;
mod groups;
mod keys;
mod model;
mod pages;
mod plans;
mod random;
mod real;
mod several;
mod writes;
