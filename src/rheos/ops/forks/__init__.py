"""What a changed program would have made of the input that a job is reading: both programs are run over
it, beside the job, and their outputs compared."""
