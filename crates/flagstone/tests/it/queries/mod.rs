//! Queries: against a model in memory, whatever the plan; pages, writes by filter, real documents.

mod found;

mod basics;
mod covered;
mod groups;
mod key_order;
mod keys;
mod limits;
mod merged;
mod model;
mod pages;
mod plain;
mod plans;
mod random;
mod real;
mod sets;
mod several;
mod statistics;
mod values;
mod writes;
