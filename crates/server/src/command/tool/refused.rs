//! Why an operation failed: the tool gets an error of the database as it is.

use crate::bson::BsonError;
use crate::failure::Failure;
use flagstone::doc::Malformed;
use flagstone_pipeline::PipelineError;

/// The result of an operation, or of a part of it.
pub(super) type Done<T = ()> = Result<T, OperationError>;

/// Why an operation failed.
pub(super) enum OperationError {
    Database(flagstone::Error),
    Other(Failure),
}

impl OperationError {
    #[cold]
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Database(error) => Failure::of_database(error),
            Self::Other(failure) => failure,
        }
    }
}

impl From<flagstone::Error> for OperationError {
    #[cold]
    fn from(error: flagstone::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PipelineError> for OperationError {
    #[cold]
    fn from(error: PipelineError) -> Self {
        Self::Database(error.into())
    }
}

impl From<Failure> for OperationError {
    #[cold]
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl From<BsonError> for OperationError {
    #[cold]
    fn from(error: BsonError) -> Self {
        Self::Other(error.into())
    }
}

impl From<Malformed> for OperationError {
    #[cold]
    fn from(error: Malformed) -> Self {
        Self::Other(error.into())
    }
}
