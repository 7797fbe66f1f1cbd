-- Which items have the highest rates of return in each channel, by quantity and by amount?
WITH returned AS (
  SELECT
    'web' AS channel, ws_item_sk AS item_sk, ws_sold_date_sk AS day_sk,
    ws_quantity AS quantity, ws_net_paid AS paid, ws_net_profit AS profit,
    wr_return_quantity AS returned_quantity, wr_return_amt AS refund
  FROM web_sales
  JOIN web_returns ON wr_order_number = ws_order_number AND wr_item_sk = ws_item_sk
  UNION ALL
  SELECT
    'catalog', cs_item_sk, cs_sold_date_sk, cs_quantity, cs_net_paid, cs_net_profit,
    cr_return_quantity, cr_return_amount
  FROM catalog_sales
  JOIN catalog_returns ON cr_order_number = cs_order_number AND cr_item_sk = cs_item_sk
  UNION ALL
  SELECT
    'store', ss_item_sk, ss_sold_date_sk, ss_quantity, ss_net_paid, ss_net_profit,
    sr_return_quantity, sr_return_amt
  FROM store_sales
  JOIN store_returns ON sr_ticket_number = ss_ticket_number AND sr_item_sk = ss_item_sk
),
rates AS (
  SELECT
    channel, item_sk,
    sum(returned_quantity) / nullif(sum(quantity), 0) AS quantity_rate,
    sum(refund) / nullif(sum(paid), 0) AS amount_rate
  FROM returned
  JOIN date_dim ON d_date_sk = day_sk AND d_year = 2001
  WHERE refund > 100 AND profit > 1 AND paid > 0 AND quantity > 0
  GROUP BY channel, item_sk
),
ranked AS (
  SELECT
    *,
    rank() OVER (PARTITION BY channel ORDER BY quantity_rate DESC) AS quantity_rank,
    rank() OVER (PARTITION BY channel ORDER BY amount_rate DESC) AS amount_rank
  FROM rates
)
SELECT
  channel, item_sk, round(quantity_rate, 2) AS quantity_rate, round(amount_rate, 2) AS amount_rate,
  quantity_rank, amount_rank
FROM ranked
WHERE quantity_rank <= 10 OR amount_rank <= 10
ORDER BY channel, quantity_rank, amount_rank, item_sk
LIMIT 100
