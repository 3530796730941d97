//! Deep profiles: model, reader, writer, preprocessing.
