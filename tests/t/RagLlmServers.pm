# How the servers of RagLlm behave. Those of the name N, or of N, a hyphen and anything, have the
# function _N. It gets the connection, the request, the number of requests so far, and the name of
# the server, and returns true if another request may follow on the connection.
package RagLlmServers;

use strict;
use warnings;
use JSON::PP ();
use Time::HiRes ();

my $json = JSON::PP->new->utf8->canonical;
# What the test tells the servers.
our $folder;

sub respond
{
	my ($connection, $status, $type, $body, @headers) = @_;
	print $connection join "\r\n", "HTTP/1.1 $status", "Content-Type: $type",
	  'Content-Length: ' . length $body, @headers, '', $body;
	return 1;
}

sub respond_json
{
	my ($connection, $status, $value, @headers) = @_;
	return respond($connection, $status, 'application/json', $json->encode($value), @headers);
}

# Begins a response in chunks.
sub begin
{
	my ($connection, $type) = @_;
	print $connection join "\r\n", 'HTTP/1.1 200 OK', "Content-Type: $type",
	  'Transfer-Encoding: chunked', '', '';
	return;
}

sub chunk
{
	my ($connection, $text) = @_;
	printf $connection "%x\r\n%s\r\n", length $text, $text;
	return;
}

# An event of OpenAI's streams.
sub event
{
	my ($connection, $value) = @_;
	chunk($connection, 'data: ' . (ref $value ? $json->encode($value) : $value) . "\n\n");
	return;
}

sub delta { my ($text) = @_; return { choices => [ { delta => { content => $text } } ] } }

sub text_of
{
	my ($name) = @_;
	return 'Keys are rotated monthly [1].' if !-e "$folder/says-$name";
	open my $file, '<:encoding(UTF-8)', "$folder/says-$name" or die $!;
	local $/;
	return scalar <$file>;
}

sub pieces { my ($text) = @_; return $text =~ /\S+\s*|\s+/g }

# -- how servers behave

sub _good
{
	my ($connection, $record, $seen, $name) = @_;
	my $request = $record->{body};
	return rerank($connection, $request) if $record->{path} =~ m{/rerank$};
	return embed($connection, $record, $name) if $record->{path} =~ m{/embed(?:dings)?$};
	my $text = text_of($name);
	my $words = 0;
	$words += () = $_->{content} =~ /\S+/g for @{ $request->{messages} };
	my @pieces = pieces($text);
	if ($record->{path} =~ m{/api/chat$})
	{
		begin($connection, 'application/x-ndjson');
		chunk($connection,
			$json->encode(
				{ message => { role => 'assistant', content => $_ }, done => JSON::PP::false })
			  . "\n")
		  for @pieces;
		chunk(
			$connection,
			$json->encode(
				{
					done => JSON::PP::true,
					done_reason => 'stop',
					prompt_eval_count => $words,
					eval_count => scalar @pieces
				})
			  . "\n");
		chunk($connection, '');
		return 1;
	}
	my $usage = { prompt_tokens => $words, completion_tokens => scalar @pieces };
	if (!$request->{stream})
	{
		my $message = { role => 'assistant', content => $text };
		return respond_json($connection, '200 OK',
			{ choices => [ { message => $message, finish_reason => 'stop' } ], usage => $usage });
	}
	begin($connection, 'text/event-stream; charset=utf-8');
	chunk($connection, ": a comment\n\n");
	event($connection, delta($_)) for @pieces;
	event($connection, { choices => [ { delta => {}, finish_reason => 'stop' } ] });
	event($connection, { choices => [], usage => $usage })
	  if $request->{stream_options}{include_usage};
	event($connection, '[DONE]');
	chunk($connection, '');
	return 1;
}

# Scores by the number of different words that a document shares with the query, without short ones.
sub rerank
{
	my ($connection, $request) = @_;
	my $documents = $request->{documents} // $request->{texts};
	my $words = sub {
		return { map { lc($_) => 1 } $_[0] =~ /\w{3,}/g };
	};
	my $wanted = $words->($request->{query});
	my $n = 0;
	my @scores = map {
		my $found = $words->($_);
		{ index => $n++, score => scalar grep { $found->{$_} } keys %$wanted }
	} @$documents;
	@scores = sort { $b->{score} <=> $a->{score} } @scores;
	return respond_json($connection, '413 Payload Too Large', { error => 'batch size > 32' })
	  if $request->{texts} && @$documents > 32;
	return respond_json($connection, '200 OK', \@scores) if $request->{texts};
	my @results = map { { index => $_->{index}, relevance_score => $_->{score} / 10 } } @scores;
	return respond_json($connection, '200 OK',
		{ results => \@results, meta => { billed_units => { search_units => 1 } } });
}

# Vectors that count words, in some of the dimensions.
sub vector
{
	my ($text, $dimensions) = @_;
	my @vector = (0.01) x $dimensions;
	for my $word (map { lc } $text =~ /\w+/g)
	{
		my $hash = 0;
		$hash = ($hash * 31 + ord) % 1_000_003 for split //, $word;
		$vector[ $hash % $dimensions ]++;
	}
	return \@vector;
}

sub words
{
	my $words = 0;
	$words += () = /\w+/g for @_;
	return $words;
}

sub embed
{
	my ($connection, $record, $name) = @_;
	my $request = $record->{body};
	my $texts = $request->{input} // $request->{texts} // $request->{inputs};
	my $dimensions = $request->{dimensions} // $request->{output_dimension} // 16;
	return embedded($connection, $record, [ map { vector($_, $dimensions) } @$texts ], $texts);
}

# Answers with vectors, as the interface of the path does.
sub embedded
{
	my ($connection, $record, $vectors, $texts) = @_;
	my ($path, $request, $words) = ($record->{path}, $record->{body}, words(@$texts));
	return respond_json($connection, '200 OK', $vectors) if $request->{inputs};
	return respond_json($connection, '200 OK',
		{ embeddings => $vectors, prompt_eval_count => $words })
	  if $path =~ m{/api/embed$};
	return respond_json(
		$connection,
		'200 OK',
		{
			embeddings => { float => $vectors },
			meta => { billed_units => { input_tokens => $words } }
		}) if $request->{texts};
	my $n = 0;
	my @data = map { { object => 'embedding', index => $n++, embedding => $_ } } @$vectors;
	# in any order
	my $usage = { prompt_tokens => $words, total_tokens => $words };
	return respond_json($connection, '200 OK', { data => [ reverse @data ], usage => $usage });
}

sub inputs
{
	my ($record) = @_;
	my $body = $record->{body};
	return $body->{input} // $body->{inputs} // $body->{texts} // [];
}

# One vector is missing.
sub _missing
{
	my ($connection, $record) = @_;
	my @texts = @{ inputs($record) };
	return embedded($connection, $record, [ map { vector($_, 16) } @texts[ 1 .. $#texts ] ],
		\@texts);
}

# One vector more than texts.
sub _surplus
{
	my ($connection, $record) = @_;
	my @texts = @{ inputs($record) };
	return embedded($connection, $record, [ map { vector($_, 16) } @texts, 'more' ], \@texts);
}

# Answers the requests that follow the first two when it is told to.
sub _held
{
	my ($connection, $record, $seen, $name) = @_;
	my $waits = $seen > 2 || $name eq 'held-embed';
	Time::HiRes::sleep(0.05) while $waits && !-e "$folder/healed-held";
	return _good(@_);
}

# The last vector is longer.
sub _ragged
{
	my ($connection, $record) = @_;
	my @vectors = map { vector($_, 16) } @{ inputs($record) };
	push @{ $vectors[-1] }, 1;
	return embedded($connection, $record, \@vectors, inputs($record));
}

# Each answer has more dimensions than the one before.
sub _growing
{
	my ($connection, $record, $seen) = @_;
	my @vectors = map { vector($_, 15 + $seen) } @{ inputs($record) };
	return embedded($connection, $record, \@vectors, inputs($record));
}

sub _nan
{
	my ($connection) = @_;
	return respond($connection, '200 OK', 'application/json',
		'{"data": [{"index": 0, "embedding": [NaN, 1]}]}');
}

sub _huge
{
	my ($connection, $record) = @_;
	return embedded($connection, $record, [ map { [ '1e300' + 0, 1 ] } @{ inputs($record) } ],
		inputs($record));
}

sub _zero
{
	my ($connection, $record) = @_;
	return embedded($connection, $record, [ map { [ 0, 0 ] } @{ inputs($record) } ],
		inputs($record));
}

# Fails from the request of a number on, until there are vectors for all that were asked before.
sub _mortal
{
	my ($connection, $record, $seen) = @_;
	return _good(@_) if $seen <= 4 || -e "$folder/healed-mortal";
	return respond_json($connection, '500 Internal Server Error', { error => 'out of GPUs' });
}

# Refuses requests with one text until it works. The others take their time.
sub _refusing
{
	my ($connection, $record) = @_;
	return _good(@_) if -e "$folder/healed-refusing";
	return respond_json($connection, '401 Unauthorized', { error => 'who are you?' })
	  if grep { /is refused/ } @{ inputs($record) };
	Time::HiRes::sleep(0.5);
	return _good(@_);
}

# Its vectors have as many dimensions as it was told to say.
sub _changing
{
	my ($connection, $record, $seen, $name) = @_;
	my $dimensions = -e "$folder/says-$name" ? text_of($name) : 16;
	return embedded($connection, $record,
		[ map { vector($_, $dimensions) } @{ inputs($record) } ],
		inputs($record));
}

sub _unauthorized
{
	my ($connection, $record) = @_;
	my $key = $record->{authorization} // 'none';
	return respond_json($connection, '401 Unauthorized',
		{ error => { message => "Incorrect API key provided: $key" } });
}

# Asks to wait twice.
sub _throttled
{
	my ($connection, $record, $seen) = @_;
	return _good(@_) if $seen > 2;
	return respond_json($connection, '429 Too Many Requests',
		{ error => { message => 'slow down' } }, 'Retry-After: 1');
}

sub _busy
{
	my ($connection) = @_;
	return respond_json($connection, '429 Too Many Requests',
		{ error => { message => 'slow down' } }, 'Retry-After: 3600');
}

sub _flaky
{
	my ($connection, $record, $seen) = @_;
	return _good(@_) if $seen > 1;
	return respond($connection, '500 Internal Server Error', 'text/html', '<h1>Oops</h1>');
}

sub _failing
{
	my ($connection) = @_;
	return respond_json($connection, '500 Internal Server Error', { error => 'out of GPUs' });
}

sub _unknown
{
	my ($connection) = @_;
	return respond_json($connection, '404 Not Found', { error => "model 'x' not found" });
}

sub _picky
{
	my ($connection) = @_;
	return respond_json($connection, '400 Bad Request',
		{ error => { message => 'maximum context length is 10 tokens' } });
}

# Refuses requests with a text of more than 40 words.
sub _short
{
	my ($connection, $record) = @_;
	return respond_json($connection, '400 Bad Request',
		{ error => { message => 'maximum context length is 40 tokens' } })
	  if grep { words($_) > 40 } @{ inputs($record) };
	return _good(@_);
}

# Refuses everything from the time on that it is told to.
sub _turning { return -e "$folder/healed-turning" ? _picky(@_) : _good(@_) }

# Refuses requests with more than two texts.
sub _small
{
	my ($connection, $record) = @_;
	return respond_json($connection, '413 Payload Too Large', { error => 'batch size > 2' })
	  if @{ inputs($record) } > 2;
	return _good(@_);
}

sub _html
{
	my ($connection) = @_;
	return respond($connection, '200 OK', 'text/html', "<html>\n<b>Welcome</b>\n</html>\n");
}

sub _json
{
	my ($connection) = @_;
	return respond_json($connection, '200 OK', { status => 'fine' });
}

sub _empty
{
	my ($connection) = @_;
	return respond($connection, '200 OK', 'application/json', '');
}

sub _elsewhere
{
	my ($connection) = @_;
	return respond($connection, '307 Temporary Redirect',
		'text/plain', '', 'Location: http://localhost:1/');
}

# The connection ends in the middle of the answer.
sub _broken
{
	my ($connection) = @_;
	begin($connection, 'text/event-stream');
	event($connection, delta('Keys are '));
	return;
}

# The stream ends properly, but the answer does not.
sub _cut
{
	my ($connection) = @_;
	begin($connection, 'text/event-stream');
	event($connection, delta('Keys are '));
	chunk($connection, 'data: {"choices": [{"del');
	chunk($connection, '');
	return 1;
}

sub _reporting
{
	my ($connection) = @_;
	begin($connection, 'text/event-stream');
	event($connection, delta('Keys are '));
	event($connection, { error => { message => 'the GPU is on fire' } });
	chunk($connection, '');
	return 1;
}

# A piece every 0.3 s.
sub _slow
{
	my ($connection) = @_;
	begin($connection, 'text/event-stream');
	for (1 .. 8)
	{
		event($connection, delta("piece $_ "));
		Time::HiRes::sleep(0.3);
	}
	event($connection, '[DONE]');
	chunk($connection, '');
	return 1;
}

sub _silent
{
	sleep 100;
	return;
}

sub _endless
{
	my ($connection) = @_;
	begin($connection, 'text/event-stream');
	event($connection, delta('blah ' x 1000)) while 1;
	return;
}

# Never ends a line.
sub _line
{
	my ($connection) = @_;
	begin($connection, 'text/event-stream');
	chunk($connection, 'data: ' . 'x' x 10_000) while 1;
	return;
}

# Reports more tokens than there can be.
sub _absurd
{
	my ($connection) = @_;
	my $usage = { prompt_tokens => 9223372036854775807, completion_tokens => 9223372036854775807 };
	my $message = { role => 'assistant', content => 'OK' };
	return respond_json($connection, '200 OK',
		{ choices => [ { message => $message, finish_reason => 'stop' } ], usage => $usage });
}

sub _few
{
	my ($connection, $record) = @_;
	return respond_json($connection, '200 OK', [ { index => 0, score => 1 } ]);
}

1;
